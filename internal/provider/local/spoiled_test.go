package local

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestFilesOfALeaseMayBeAnything: what is no plain small file ends no process that reads
// it, and nothing of it is shown.
func TestFilesOfALeaseMayBeAnything(t *testing.T) {
	p := newProvider(t, Settings{Scratch: scratch(t)})
	l := acquire(t, p, core.Owner{User: "u", Run: "r", Attempt: 1}).(*lease)
	testkit.Spoil(t, filepath.Join(l.dir, detailsName), func(t *testing.T) string {
		d, err := readDetails(l.dir)
		if !core.IsKind(err, core.NotFound) {
			t.Error(err)
		}
		return fmt.Sprintf("%+v %v", d, err)
	})
	testkit.Spoil(t, l.nodePath(0), func(t *testing.T) string {
		alive, err := l.NodeAlive(t.Context(), 0)
		if alive || err == nil {
			t.Errorf("%v, %v", alive, err)
		}
		if err := l.stopNodes(t.Context()); err == nil { // it may run
			t.Error("there is no error")
		}
		return fmt.Sprint(err)
	})
	testkit.Spoil(t, filepath.Join(l.dir, "node.log"), func(*testing.T) string { return tail(filepath.Join(l.dir, "node.log")) })
	if err := os.WriteFile(filepath.Join(l.dir, "node.log"), []byte("\x1b]0;owned\athe end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := tail(filepath.Join(l.dir, "node.log")), `: \x1b]0;owned\athe end`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
