package stopcmd

import (
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/state"
)

// TestStopOfJobsOfWhichOneWasRemoved ends the others. This process is their controller.
func TestStopOfJobsOfWhichOneWasRemoved(t *testing.T) {
	store := stateOf(t, state.Run{ID: "bbbb2222", Name: "solve", State: state.Running, Submission: []byte("{}")})
	if err := store.PutRun(t.Context(), state.Run{ID: "cccc3333", Name: "old", State: state.Succeeded, Submission: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	lock, err := store.Locks().Acquire("bbbb2222")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	defer signal.Stop(told)
	w := workspace.New(io.Discard, io.Discard, "0.1.0")
	s := &workspace.Session{Workspace: w, Controller: &control.Controller{Runner: control.Runner{Store: store, Log: w.Log()}}}
	if err := (&Commands{Workspace: w}).StopNamed(t.Context(), s, []string{"aaaa1111", "cccc3333", "bbbb2222"}); err != nil {
		t.Error(err)
	}
	if stopping, err := store.Requests().Stopping(t.Context()); err != nil || !slices.Equal(stopping, []string{"bbbb2222"}) {
		t.Errorf("%v: %v are to stop", err, stopping)
	}
	<-told
}
