package cli

import (
	"testing"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/state"
)

// TestACarrierForgetsNoRunThatIsHandedOverLate: a run that its user resumes or
// stops just when its carrier is done with it is carried on.
func TestACarrierForgetsNoRunThatIsHandedOverLate(t *testing.T) {
	d := newDesk(t, state.Run{ID: "resumed1", State: state.Queued}, state.Run{ID: "stopped1", State: state.Suspended},
		state.Run{ID: "waiting1", State: state.Suspended}, state.Run{ID: "ended111", State: state.Succeeded}, state.Run{ID: "another1", State: state.Running})
	if err := d.store.AskStop(t.Context(), "stopped1"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Lock("another1"); err != nil { // as another carrier does
		t.Fatal(err)
	}
	c := newCarrier(&session{Controller: &control.Controller{Store: d.store}}, t.TempDir())
	for id, again := range map[string]bool{"resumed1": true, "stopped1": true, "waiting1": false, "ended111": false, "another1": false, "removed1": false} {
		c.runs[id] = &carried{}
		if lock := c.letGo(t.Context(), id); (lock != nil) != again || (c.runs[id] != nil) != again {
			t.Errorf("%s: given a lock %v, still carried %v; want %v", id, lock != nil, c.runs[id] != nil, again)
		}
	}
}
