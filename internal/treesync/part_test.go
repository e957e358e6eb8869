package treesync

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingIsGoneWhileItIsReplaced, also where two names cannot change places at once,
// as on NFS: a process that is killed in between leaves what was there, under a name at
// which the next one finds it.
func TestNothingIsGoneWhileItIsReplaced(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "results")
	must(t, os.MkdirAll(filepath.Join(at, "was"), 0o755))
	p, err := newPart(at, "")
	must(t, err)
	name, err := p.claim()
	must(t, err)
	must(t, unix.Mkdirat(p.dir, name, 0o755))
	must(t, p.replace())
	p.close()
	if _, err := os.Lstat(filepath.Join(at, "was")); err == nil {
		t.Error("it was not replaced")
	}
	noLeftovers(t, dir)

	must(t, os.Mkdir(filepath.Join(at, "is"), 0o755))
	must(t, os.Rename(at, replaced(at))) // as a kill in between leaves it
	from := filepath.Join(t.TempDir(), "from")
	must(t, os.Mkdir(from, 0o755))
	must(t, os.Symlink("/nowhere", filepath.Join(from, "l")))
	if _, err := NewBasis(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(at, "is")); err != nil {
		t.Errorf("what was there is gone: %v", err)
	}
	must(t, os.Rename(at, replaced(at)))
	p, err = newPart(at, "")
	must(t, err)
	_, err = p.claim()
	must(t, err)
	p.close()
	if _, err := os.Lstat(filepath.Join(at, "is")); err != nil {
		t.Errorf("what was there is gone: %v", err)
	}
}
