package dataimage

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnloadedFilesGiveNobodyRights: a file of an image belongs to the caller afterwards,
// root perhaps, and anyone who runs it must not become that.
func TestUnloadedFilesGiveNobodyRights(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]uint32{"uid": 0o4755, "gid": 0o2755, "both": 0o6711, "plain": 0o640} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(sub, 0o2775); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	image := opened(t, load(t, dir, 64<<20))
	if err := image.Unload(t.Context(), out, nil); err != nil {
		t.Fatal(err)
	}
	want, err := image.DigestUnloaded(t.Context())
	if got, gerr := DigestOf(t.Context(), out); err != nil || gerr != nil || got != want {
		t.Errorf("unloaded is %s, %v, not %s, %v", got, gerr, want, err)
	}
	for name, want := range map[string]uint32{"uid": 0o755, "gid": 0o755, "both": 0o711, "plain": 0o640, "sub": 0o775} {
		if got := stat(t, filepath.Join(out, name)).Mode & 0o7777; got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}
