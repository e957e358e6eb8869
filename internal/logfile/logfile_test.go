package logfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestALogIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		before        int // bytes that an earlier process has written
		pieces, bytes int
		now, older    int // whole pieces that are there at the end; -1: no file
	}{
		"little":                 {pieces: 3, bytes: 10, now: 3, older: -1},
		"just full":              {pieces: 10, bytes: 10, now: 10, older: -1},
		"one more":               {pieces: 11, bytes: 10, now: 1, older: 10},
		"a flood":                {pieces: 10_000, bytes: 30, now: 1, older: 3},
		"after a full one":       {before: 100, pieces: 1, bytes: 10, now: 1, older: 0},
		"after one without end":  {before: 100_000, pieces: 1, bytes: 10, now: 1, older: 0},
		"pieces larger than all": {pieces: 3, bytes: 1000, now: 1, older: 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.log")
			if c.before > 0 {
				if err := os.WriteFile(path, bytes.Repeat([]byte("#"), c.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			l, err := open(path, 100)
			if err != nil {
				t.Fatal(err)
			}
			piece := []byte(strings.Repeat("x", c.bytes-1) + "\n")
			for range c.pieces {
				if n, err := l.Write(piece); err != nil || n != len(piece) {
					t.Fatalf("wrote %d of %d: %v", n, len(piece), err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			for file, want := range map[string]int{path: c.now, Older(path): c.older} {
				raw, err := os.ReadFile(file)
				if (err == nil) != (want >= 0) {
					t.Fatalf("%s: %v", file, err)
				}
				if got := bytes.Count(raw, []byte("x")) / min(c.bytes-1, 100); err == nil && got != want || len(raw) > max(100, c.before) {
					t.Errorf("%s has %d pieces and %d bytes, want %d pieces", filepath.Base(file), got, len(raw), want)
				}
			}
		})
	}
}

func TestALogOfManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	l, err := open(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				if _, err := fmt.Fprintf(l, "writer %d wrote this\n", i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, Older(path)} {
		raw, err := os.ReadFile(file)
		if err != nil || len(raw) > 1000 {
			t.Fatalf("%s has %d bytes: %v", file, len(raw), err)
		}
		for line := range strings.Lines(string(raw)) {
			if len(line) != len("writer 0 wrote this\n") {
				t.Errorf("a line is torn: %q", line)
			}
		}
	}
	if _, err := l.Write([]byte("x")); err == nil {
		t.Error("a closed log was written to")
	}
}

func TestRotate(t *testing.T) {
	for name, c := range map[string]struct {
		size    int // -1: no file
		rotated bool
	}{
		"no log":       {size: -1},
		"an empty log": {size: 0},
		"a short log":  {size: 99},
		"a full log":   {size: 100, rotated: true},
		"a huge log":   {size: 100_000, rotated: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.log")
			if err := os.WriteFile(Older(path), []byte("older"), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.size >= 0 {
				if err := os.WriteFile(path, make([]byte, c.size), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := Rotate(path, 100); err != nil {
				t.Fatal(err)
			}
			want := int64(len("older"))
			if c.rotated {
				want = int64(c.size)
			}
			if info, err := os.Stat(Older(path)); err != nil || info.Size() != want {
				t.Errorf("the older log: %+v, %v; want %d bytes", info, err, want)
			}
			if _, err := os.Stat(path); (err == nil) != (c.size >= 0 && !c.rotated) {
				t.Errorf("the log: %v", err)
			}
		})
	}
}

// TestALinkInPlaceOfALog is not followed.
func TestALinkInPlaceOfALog(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "x.log"), filepath.Join(dir, "other")
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(path); err == nil {
		l.Close()
		t.Error("it is opened")
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("it is followed")
	}
}
