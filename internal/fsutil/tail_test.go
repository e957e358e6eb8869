package fsutil_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestTail(t *testing.T) {
	dir := t.TempDir()
	if _, err := fsutil.Tail(dir, "log", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
	for text, want := range map[string]string{"": "", "end": "end", "the end": " end"} {
		if err := os.WriteFile(filepath.Join(dir, "log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := fsutil.Tail(dir, "log", 4); string(got) != want || err != nil {
			t.Errorf("of %q: %q, %v", text, got, err)
		}
	}
	testkit.Spoil(t, filepath.Join(dir, "log"), func(t *testing.T) string {
		got, err := fsutil.Tail(dir, "log", 1000)
		info, lerr := os.Lstat(filepath.Join(dir, "log"))
		if lerr != nil || errors.Is(err, fsutil.ErrNotPlain) == info.Mode().IsRegular() {
			t.Errorf("%v of %v, %v", err, info.Mode(), lerr)
		}
		return string(got)
	})
}

func TestReadFileOfWhatIsNone(t *testing.T) {
	dir := t.TempDir()
	testkit.Spoil(t, filepath.Join(dir, "record"), func(t *testing.T) string {
		got, err := fsutil.ReadFile(dir, "record", 64<<20)
		if !fsutil.Spoiled(err) {
			t.Error(err)
		}
		return string(got)
	})
	if _, err := fsutil.ReadFile(dir, "none", 1); err == nil || fsutil.Spoiled(err) {
		t.Errorf("of none: %v", err)
	}
}
