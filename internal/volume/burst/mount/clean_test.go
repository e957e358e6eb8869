package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestCleanKeepsUndrained: a buffer is removed only where it is known to be drained.
func TestCleanKeepsUndrained(t *testing.T) {
	mode, at := uint32(0o644), int64(1)
	file := meta.Change{Do: meta.DoCreate, Ino: meta.Root + 1, Dir: meta.Root, Name: "f", Kind: remote.File, Mode: &mode, Mtime: &at, Time: at}
	dir := meta.Change{Do: meta.DoCreate, Ino: meta.Root + 1, Dir: meta.Root, Name: "d", Kind: remote.Dir, Mode: &mode, Mtime: &at, Time: at}
	changes := func(all ...meta.Change) func(burst.Config) error {
		return func(c burst.Config) error {
			log, err := buffer.Open(c.Place, buffer.Options{})
			for _, one := range all {
				var raw []byte
				if err == nil {
					raw, err = one.Encode()
				}
				if err == nil {
					err = log.Append(&buffer.Record{Kind: buffer.Change, Payload: raw})
				}
			}
			if err != nil {
				return err
			}
			return log.Close()
		}
	}
	for name, c := range map[string]struct {
		fill  func(burst.Config) error
		fails bool
		clean bool
	}{
		"empty":                       {changes(), false, true},
		"a file that was not closed":  {changes(file), false, false},
		"a file that was closed":      {changes(file, meta.Change{Do: meta.DoPut, Ino: file.Ino, Time: at}), false, false},
		"a directory":                 {changes(dir), false, false},
		"damaged":                     {func(c burst.Config) error { return os.WriteFile(filepath.Join(c.Place, "index"), []byte("x"), 0o600) }, true, false},
		"on a disk that is not there": {func(c burst.Config) error { return os.Rename(c.Place, c.Place+".away") }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := ofRun(t)
			if err := c.fill(v); err != nil {
				t.Fatal(err)
			}
			clean, err := Clean(t.Context(), v, true)
			if clean != c.clean || (err != nil) != c.fails {
				t.Errorf("cleaned: %v, %v", clean, err)
			}
			_, record := os.Stat(filepath.Join(v.Dir, "volume.json"))
			if _, err := os.Stat(v.Place); (record == nil) == c.clean || !c.fails && (err == nil) == c.clean {
				t.Errorf("the record: %v, the buffer: %v", record, err)
			}
		})
	}
}

// TestCleanLeavesWhatAnAttemptHasBegunWith since the record was read.
func TestCleanLeavesWhatAnAttemptHasBegunWith(t *testing.T) {
	v := ofRun(t)
	now := v
	now.Attempt++
	if err := now.Save(); err != nil {
		t.Fatal(err)
	}
	if clean, err := Clean(t.Context(), v, true); clean || !core.IsKind(err, core.Busy) {
		t.Errorf("cleaned: %v, %v", clean, err)
	}
	if _, err := os.Stat(v.Place); err != nil {
		t.Error(err)
	}
	if clean, err := Clean(t.Context(), now, true); !clean || err != nil {
		t.Errorf("its own: %v, %v", clean, err)
	}
}

// TestRoomOfADisk: a buffer gets no more room than its disk has.
func TestRoomOfADisk(t *testing.T) {
	dir := t.TempDir()
	has, err := free(dir)
	if err != nil || has < 2*LeastRoom {
		t.Fatalf("the disk has %d bytes, %v", has, err)
	}
	for asked, kind := range map[int64]core.Kind{2 * has: core.Busy, LeastRoom - 1: core.Invalid} {
		if got, err := room(filepath.Join(dir, "not", "made"), asked); !core.IsKind(err, kind) {
			t.Errorf("of %d bytes it gets %d, %v", asked, got, err)
		}
	}
	if got, err := room(dir, LeastRoom); got != LeastRoom || err != nil {
		t.Errorf("it gets %d bytes, %v", got, err)
	}
	if got, err := room(dir, 0); err != nil || got > has*3/4 || got > MostRoom {
		t.Errorf("it gets %d of %d bytes, %v", got, has, err)
	}
}
