package stopcmd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/supervisor"
)

// TestTheLogOfAControllerIsBounded: a run that is tried again for months, or whose site
// has much to report, does not fill the disk.
func TestTheLogOfAControllerIsBounded(t *testing.T) {
	store := stateOf(t, state.Run{ID: "flooded1", State: state.Succeeded, Submission: []byte("7")}) // which no controller can read
	log := workspace.ControllerLog(store.RunDir("flooded1"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o700), os.WriteFile(log, bytes.Repeat([]byte("a line\n"), logfile.Limit/7), 0o600)); err != nil {
		t.Fatal(err)
	}
	w := workspace.New(io.Discard, io.Discard, "0.1.0")
	s := &workspace.Session{Workspace: w, Controller: &control.Controller{Runner: control.Runner{Store: store, Log: w.Log()}}}
	for range 3 {
		if err := controlOnce(t.Context(), s, "flooded1", supervisor.NewStop(), time.Second); err == nil {
			t.Fatal("a controller has read it")
		}
	}
	for file, most := range map[string]int64{log: 100_000, logfile.Older(log): logfile.Limit} {
		info, err := os.Stat(file)
		if err != nil || info.Size() > most {
			t.Fatalf("%s: %+v, %v", file, info, err)
		}
	}
}

// stateOf is a state directory with a run on record.
func stateOf(t *testing.T, run state.Run) *state.Store {
	t.Helper()
	store, err := state.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return store
}
