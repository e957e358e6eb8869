package sshfarm

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// tallies is the directory in which each connection of ssh's has a file with the
// number of bytes that it has carried, both ways together.
const tallies = "tallies"

type tally struct {
	mu  sync.Mutex
	f   *os.File
	sum uint64
}

func newTally(dir string) (*tally, error) {
	f, err := os.CreateTemp(dir, "")
	return &tally{f: f}, err
}

// Write counts. The file is right at any time: ssh kills who carries its bytes.
func (t *tally) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum += uint64(len(b))
	_, err := t.f.WriteAt(binary.LittleEndian.AppendUint64(nil, t.sum), 0)
	return len(b), err
}

// Carried is how many bytes this machine and the hosts have exchanged by ssh so far.
func (f *Farm) Carried(t testing.TB) int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(f.Dir, "emulated", tallies, "*"))
	must(t, err)
	sum := int64(0)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		must(t, err)
		if len(raw) == 8 {
			sum += int64(binary.LittleEndian.Uint64(raw))
		}
	}
	return sum
}
