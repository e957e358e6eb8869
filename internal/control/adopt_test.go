package control

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// otherMachine is a site that is there on another machine, and here holds nothing.
type otherMachine struct{ driver.Provider }

func (otherMachine) Recover(context.Context, core.Handle) (driver.Lease, error) {
	return nil, &core.Error{Kind: core.Transient, Err: errors.New("it is on host login1")}
}

// TestWhatIsOnAnotherMachineIsNotHeldForReleased by the list of what is here.
func TestWhatIsOnAnotherMachineIsNotHeldForReleased(t *testing.T) {
	w := newWorld(t, "a")
	w.Provider = func(spec.Site) (driver.Provider, error) { return otherMachine{w.sites["a"]}, nil }
	sub, err := json.Marshal(Submission{Version: submissionVersion, Job: spec.Job{Name: "j", Nodes: 1}, Sites: []spec.Site{{Name: "a", Provider: "fake"}}})
	if err != nil {
		t.Fatal(err)
	}
	run := state.Run{ID: "aaaa1111", Name: "j", State: state.Stopped, Created: time.Now(), Submission: sub}
	if err := w.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	lease := &core.Handle{Driver: "fake", Owner: core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}}
	if err := w.Store.PutAttempt(t.Context(), state.Attempt{Run: run.ID, N: 1, Site: "a", Lease: lease, Started: time.Now()}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Drive(t.Context(), run.ID, nil); !core.IsKind(err, core.Transient) {
		t.Errorf("got %v, want that it is elsewhere", err)
	}
	if a := w.attempts(t, run); len(a) != 1 || a[0].Released {
		t.Errorf("it is held for released: %+v", a)
	}
}
