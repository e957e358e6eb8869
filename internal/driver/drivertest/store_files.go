package drivertest

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/store"
)

// tree is a directory of this machine, as a source and as a sink.
type tree = store.Tree

// Write fills a file with random bytes that depend on the seed.
func Write(t testing.TB, name string, size int, seed byte) {
	t.Helper()
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{seed}).Read(data) //nolint:errcheck // it cannot fail
	if err := os.WriteFile(name, data, 0o640); err != nil {
		t.Fatal(err)
	}
}

// Files gives the sizes of all files below a directory.
func Files(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a server removes directories that are empty
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			found[name] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Largest gives the largest file below a directory that was not there before.
func Largest(t testing.TB, dir string, before map[string]int64) string {
	t.Helper()
	best := ""
	now := Files(t, dir)
	for name, size := range now {
		if _, was := before[name]; !was && (best == "" || size > now[best]) {
			best = name
		}
	}
	if best == "" {
		t.Fatal("no file is new")
	}
	return best
}

// Flip changes one bit in the middle of a file.
func Flip(name string) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	raw[len(raw)/2] ^= 1
	return os.WriteFile(name, raw, 0o600)
}
