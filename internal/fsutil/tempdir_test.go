package fsutil

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTempDirRemovesWhatWasLeft(t *testing.T) {
	in := t.TempDir()
	long := time.Now().Add(-2 * soon)
	old, fresh, other, users := filepath.Join(in, "bee-x-17"), filepath.Join(in, "bee-x-18"), filepath.Join(in, "bee-y-17"), filepath.Join(in, "bee-x-results")
	for _, dir := range []string{old, fresh, other, users} {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		if dir != fresh {
			if err := os.Chtimes(dir, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	made, err := TempDir(in, "bee-x-")
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{old: false, fresh: true, other: true, users: true, made: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
