package runcmd

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/supervisor"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestResumeWaitsForWhoHasJustTakenARunOver, by any command that found it orphaned.
func TestResumeWaitsForWhoHasJustTakenARunOver(t *testing.T) {
	for name, c := range map[string]struct {
		becomes state.RunState
		goes    bool
	}{"it has left a checkpoint": {state.Suspended, false}, "it runs": {state.Running, true}} {
		store := runrecords.Open(t, t.TempDir(), state.Run{ID: "aaaa1111", Name: "pi", State: state.Running})
		run, err := store.Run(t.Context(), "aaaa1111")
		if err != nil {
			t.Fatal(err)
		}
		if err := store.PutAttempt(t.Context(), state.Attempt{Run: run.ID, N: 1, Site: "a", Started: time.Now().Add(-time.Hour)}, false); err != nil {
			t.Fatal(err)
		}
		controller, err := store.Locks().Acquire(run.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer controller.Unlock()
		time.AfterFunc(supervisor.TakeInterval, func() {
			run := run
			run.State = c.becomes
			if err := store.PutRun(t.Context(), run); err != nil {
				t.Error(err)
			}
		})
		var reported strings.Builder
		a := NewResume(workspace.New(io.Discard, &reported, "0.1.0"))
		got, goes, err := a.settle(t.Context(), &workspace.Session{Workspace: a.Workspace, Controller: &control.Controller{Runner: control.Runner{Store: store}}}, run, 10*supervisor.TakeInterval)
		if err != nil || got.State != c.becomes || goes != c.goes {
			t.Errorf("%s: %+v, %v, %v, %q", name, got, goes, err, reported.String())
		}
		testkit.Wording(t, name, reported.String())
	}
}
