package sshfarm

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// tallies is the directory in which each connection of ssh's has a file with the
// number of bytes that it has carried, both ways together.
const tallies = "tallies"

type tally struct {
	mu   sync.Mutex
	f    *os.File
	sum  uint64
	rate float64   // bytes in a second; 0: any number
	free time.Time // when all before has passed
}

func newTally(dir string) (*tally, error) {
	t := &tally{}
	raw, err := os.ReadFile(dir + homeRate)
	if err == nil {
		t.rate, err = strconv.ParseFloat(string(raw), 64)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		t.f, err = os.CreateTemp(dir, "")
	}
	return t, err
}

// homeRate, behind that directory's name, is the file with the rate of this
// machine's line.
const homeRate = ".rate"

// Home gives each connection of ssh's that is made from now on so many bytes in a
// second, both ways together, as from a home with a slow line.
func (f *Farm) Home(t testing.TB, rate int64) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(f.Dir, "emulated", tallies+homeRate), []byte(strconv.FormatInt(rate, 10)), 0o600))
}

// Write counts. The file is right at any time: ssh kills who carries its bytes.
func (t *tally) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum += uint64(len(b))
	if t.rate > 0 {
		if now := time.Now(); t.free.Before(now) {
			t.free = now
		}
		t.free = t.free.Add(time.Duration(float64(len(b)) / t.rate * float64(time.Second)))
		time.Sleep(time.Until(t.free))
	}
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
