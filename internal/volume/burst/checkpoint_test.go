package burst

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestSuperseded has a second attempt of a run take the remote over while the first has undrained data: the
// remote has what the checkpoint had, the first changes nothing there any more, and what it has can be
// saved. While something was just changed, no quiet checkpoint is taken.
func TestSuperseded(t *testing.T) {
	dir, request := t.TempDir(), uint64(0)
	far, out := filepath.Join(dir, "far"), filepath.Join(dir, "out")
	if err := errors.Join(os.Mkdir(far, 0o755), os.Mkdir(out, 0o755)); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(id string) (*Config, *Volume) {
		c := &Config{ID: id, Remote: far, Run: "run", Dir: filepath.Join(dir, id), Place: filepath.Join(dir, id, "buffer")}
		must(errors.Join(fsutil.OwnDir(c.Dir), fsutil.OwnDir(c.Place), c.Save()))
		v, err := load(Options{ID: id, Remote: far, Place: c.Place, Room: 8 << 20, Run: "run"})
		must(err)
		v.drainer.taken = func() bool { return taken(v.tree, *c) }
		return c, v
	}
	write := func(v *Volume, name, text string) {
		t.Helper()
		request++
		a, err := v.Make(t.Context(), who{1, request}, remote.File, &calls.Request{Ino: meta.Root, Name: name, Mode: 0o644})
		if err != nil {
			a, err = v.names.Lookup(t.Context(), meta.Root, name)
		}
		must(err)
		must(v.Write(t.Context(), a.Ino, 0, []byte(text)))
		must(v.Flush(a.Ino))
	}
	first, a := open("first")
	must(take(a.tree, first, false, false))
	must(a.begins(t.Context(), 0))
	a.begin(t.Context())
	write(a, "f", "one")
	if _, err := a.Checkpoint(nil, true); !core.IsKind(err, core.Busy) {
		t.Errorf("a quiet checkpoint: %v", err)
	}
	n, err := a.Checkpoint(nil, false)
	must(err)
	must(a.Drained(t.Context()))
	if n != 2 || a.Status().Generation != 2 {
		t.Errorf("checkpoint %d is recorded as %d", n, a.Status().Generation)
	}
	a.halt()
	write(a, "f", "two")
	write(a, "g", "new")

	second, b := open("second")
	must(take(b.tree, second, false, false))
	must(b.begins(t.Context(), 2))
	if second.Epoch != 2 {
		t.Errorf("its epoch is %d", second.Epoch)
	}
	want := map[string]string{"f": "one"}
	a.begin(t.Context())
	testkit.Eventually(t, 30*time.Second, func() error {
		if !a.Status().Superseded {
			return errors.New("the first volume does not find out")
		}
		return nil
	})
	if got := tree(t, far); !maps.Equal(got, want) {
		t.Errorf("the remote has %v", got)
	}
	for name, epoch := range map[string]int{"takes the remote back": first.Epoch, "is recovered by another installation, which takes the remote": 0} {
		again := *first
		again.Epoch, again.Superseded = epoch, false
		if err := take(a.tree, &again, false, true); !core.IsKind(err, core.Busy) || !again.Superseded {
			t.Errorf("the first volume %s: %v", name, err)
		}
	}
	must(a.Close())
	x, err := Export(t.Context(), first.Place, out)
	must(err)
	if got := tree(t, out); x.Files != 2 || !maps.Equal(got, map[string]string{"f": "two", "g": "new"}) {
		t.Errorf("saved: %+v, %v", x, got)
	}
	b.begin(t.Context())
	write(b, "f", "three")
	must(b.Drained(t.Context()))
	must(b.Close())
	if got := tree(t, far); !maps.Equal(got, map[string]string{"f": "three"}) {
		t.Errorf("the remote has %v", got)
	}
	if other, c := open("other"); true {
		other.Run = "another"
		if err := take(c.tree, other, false, false); !core.IsKind(err, core.Busy) || core.Remedy(err) == "" {
			t.Errorf("another run has the remote: %v", err)
		}
		must(c.Close())
	}
}

// TestQuiet changes a file in a directory that belongs to a checkpoint as a link leads there: no quiet one
// is taken, until nothing was changed for a while.
func TestQuiet(t *testing.T) {
	dir := t.TempDir()
	far, place := filepath.Join(dir, "far"), filepath.Join(dir, "buffer")
	if err := errors.Join(os.Mkdir(far, 0o755), fsutil.OwnDir(place)); err != nil {
		t.Fatal(err)
	}
	v, err := load(Options{ID: "v", Remote: far, Place: place, Room: 8 << 20, Run: "run", Globs: []string{"link"}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	made, err := v.Make(t.Context(), who{1, 1}, remote.Dir, &calls.Request{Ino: meta.Root, Name: "d", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	f, err := v.Make(t.Context(), who{1, 2}, remote.File, &calls.Request{Ino: made.Ino, Name: "f", Mode: 0o644})
	if err != nil {
		t.Fatal(err)
	}
	quiet := func() error {
		_, err := v.Checkpoint([]string{"d"}, true)
		return err
	}
	testkit.Eventually(t, 30*time.Second, quiet)
	if err := errors.Join(v.Write(t.Context(), f.Ino, 0, []byte("new")), v.Flush(f.Ino)); err != nil {
		t.Fatal(err)
	}
	if err := quiet(); !core.IsKind(err, core.Busy) {
		t.Errorf("a file in the directory was just changed: %v", err)
	}
	testkit.Eventually(t, 30*time.Second, quiet)
}
