package runcmd

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/state"
)

// recorded returns the commands over a state directory with runs on record.
func recorded(t *testing.T, runs ...state.Run) *Commands {
	t.Helper()
	a := New(workspace.New(io.Discard, io.Discard, "0.1.0"), nil)
	dir := t.TempDir()
	a.StateDir, a.CacheDir = filepath.Join(dir, "s"), filepath.Join(dir, "c")
	records(t, a.StateDir, runs...)
	return a
}

// records is a state directory with runs on record.
func records(t *testing.T, dir string, runs ...state.Run) *state.Store {
	t.Helper()
	store, err := state.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for i, r := range runs {
		r.Created = time.Now().Add(time.Duration(i) * time.Second)
		if r.Submission == nil {
			r.Submission = []byte("{}")
		}
		if err := store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return store
}
