package dir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
)

// TestARunsDirectoryIsNoLink: by one, files elsewhere would be changed and removed.
func TestARunsDirectoryIsNoLink(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	mine := filepath.Join(elsewhere, "1", "manifest.json")
	if err := os.MkdirAll(filepath.Dir(mine), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(root, "a@b")); err != nil {
		t.Fatal(err)
	}
	store := Store(root).Run("a@b")
	if _, _, err := store.Keep(t.Context(), driver.Generation{Attempt: 2}, "s", localTree(t.TempDir())); err == nil {
		t.Error("a checkpoint was kept over it")
	}
	if err := store.Note(t.Context(), nil); err == nil {
		t.Error("a record was written over it")
	}
	if err := store.Remove(t.Context()); err == nil {
		t.Error("it was removed")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}
