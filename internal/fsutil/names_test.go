package fsutil

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestNames exchanges and removes names of a tree, and touches nothing outside of it.
func TestNames(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	r, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, text := range map[string]string{filepath.Join(dir, "a"): "A", filepath.Join(dir, "b"): "B", filepath.Join(outside, "c"): "C"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := r.Exchange("a", "b"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadFile("a", 9); err != nil || string(got) != "B" {
		t.Errorf("after the exchange a has %q, %v", got, err)
	}
	at := time.Unix(1e9, 123456789)
	if err := r.SetTime("a", at); err != nil {
		t.Error(err)
	}
	if info, err := r.Lstat("a"); err != nil || !info.ModTime().Equal(at) {
		t.Errorf("modified %v, %v", info.ModTime(), err)
	}
	if err := r.Rmdir("a"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("removing a file as a directory: %v", err)
	}
	if err := r.Unlink("a"); err != nil {
		t.Error(err)
	}
	for _, err := range []error{r.Unlink("out/c"), r.Exchange("b", "out/c"), r.SetTime("out/c", at), r.Rmdir("../" + filepath.Base(outside))} {
		if err == nil {
			t.Error("a name outside of the tree was changed")
		}
	}
	if got, err := os.ReadFile(filepath.Join(outside, "c")); err != nil || string(got) != "C" {
		t.Errorf("the file outside has %q, %v", got, err)
	}
}
