package generation

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// far is a directory as the remote of a run.
type far struct {
	t    *testing.T
	dir  string
	tree *remote.Tree
	seq  int64
}

func newFar(t *testing.T) *far {
	f := &far{t: t, dir: t.TempDir()}
	var err error
	f.tree, err = remote.OpenTree(f.dir, "volume", nil)
	f.must(err)
	t.Cleanup(func() { f.tree.Close() })
	return f
}

func (f *far) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *far) begin(run string, number int) (*Generations, []Conflict) {
	f.t.Helper()
	g := New(f.tree, run, nil)
	_, conflicts, err := g.Start(f.t.Context(), number)
	f.must(err)
	return g, conflicts
}

// send sends a version of the file f, notes it, and gives what publishes it.
func (f *far) send(g *Generations, text string) (publish func()) {
	f.t.Helper()
	f.seq++
	c := remote.Content{
		Size: int64(len(text)), Mode: 0o644, Mtime: f.seq,
		Data: func(put func(int64, []byte) error) error { return put(0, []byte(text)) },
	}
	partial, v, err := f.tree.Write(f.t.Context(), "f", 1, c)
	f.must(err)
	f.must(g.Touch(f.t.Context(), []drain.Touch{{Path: "f", Will: drain.Thing{Kind: remote.File, Mode: 0o644, Mtime: f.seq, Version: v}}}))
	return func() {
		e, err := f.tree.Stat("f")
		if err != nil && !absent(err) {
			f.t.Fatal(err)
		}
		_, err = f.tree.Publish(partial, "f", v, e.Version)
		f.must(err)
	}
}

// TestAFileThatIsSentAgain and again, before it is published, is still that of the volume: a reset removes it.
func TestAFileThatIsSentAgain(t *testing.T) {
	f := newFar(t)
	g, _ := f.begin("run", 0)
	f.send(g, "one")()
	f.send(g, "two")()
	f.send(g, "three")
	f.send(g, "four")
	_, conflicts := f.begin("run", 1)
	if _, err := f.tree.Stat("f"); !absent(err) || len(conflicts) > 0 {
		t.Errorf("after the reset: %v, %v", err, conflicts)
	}
}

// TestCheckpointsOfOthersStay: of another run, and what no run has made.
func TestCheckpointsOfOthersStay(t *testing.T) {
	f := newFar(t)
	f.begin("run", 0)
	notes := filepath.Join(f.dir, remote.Generations, "notes")
	f.must(errors.Join(os.Mkdir(notes, 0o755), os.WriteFile(filepath.Join(notes, "n"), nil, 0o644), os.WriteFile(notes+".txt", nil, 0o644)))
	if _, _, err := New(f.tree, "other", nil).Start(t.Context(), 0); !errors.Is(err, ErrOther) || !core.IsKind(err, core.Busy) {
		t.Errorf("another run: %v", err)
	}
	f.begin("run", 1)
	for _, name := range []string{filepath.Join(notes, "n"), notes + ".txt"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// TestALostFileOfACheckpoint is noticed.
func TestALostFileOfACheckpoint(t *testing.T) {
	f := newFar(t)
	f.must(os.WriteFile(filepath.Join(f.dir, "f"), []byte("before"), 0o644))
	g, _ := f.begin("run", 0)
	f.send(g, "after")()
	kept, err := filepath.Glob(filepath.Join(f.dir, remote.Generations, "1", "*"+dataSuffix))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept: %v, %v", kept, err)
	}
	f.must(os.Remove(kept[0]))
	if _, _, err := New(f.tree, "run", nil).Start(t.Context(), 1); err == nil || !core.IsKind(err, core.Permanent) {
		t.Errorf("the reset: %v", err)
	}
}
