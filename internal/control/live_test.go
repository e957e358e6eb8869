package control

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestARunWithoutHostsSaysWhatToDo: one in a queue has a lease already, whose hosts
// are still to come.
func TestARunWithoutHostsSaysWhatToDo(t *testing.T) {
	w := newWorld(t, "a")
	controltest.StartsAlone(w.sites["a"], time.Hour, controltest.Always)
	queued := w.submitJob(t, controltest.Movable())
	for _, c := range []struct {
		name   string
		state  state.RunState
		leased bool
		remedy string
	}{
		{"between attempts", state.Queued, false, "bee logs -f ID"},
		{"in a queue", state.Queued, true, "bee logs -f ID"},
		{"over", state.Failed, true, "bee logs ID"},
		{"suspended", state.Suspended, false, "bee resume ID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := queued
			run.State = c.state
			o := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
			w.sites["a"].Held[o] = true
			at := state.Attempt{Run: run.ID, N: 1, Site: "a", Started: time.Now(), State: map[bool]state.AttemptState{true: state.InQueue, false: state.Closed}[c.leased], Lease: &core.Handle{Driver: "fake", Version: 1, Owner: o, Data: []byte("{}")}}
			if err := w.Store.PutAttempt(t.Context(), at, false); err != nil {
				t.Fatal(err)
			}
			_, err := w.DialNode(t.Context(), run, 0)
			if !core.IsKind(err, core.NotFound) || !strings.Contains(core.Remedy(err), strings.ReplaceAll(c.remedy, "ID", run.ID)) {
				t.Errorf("got %v (%s), remedy %q", err, core.KindOf(err), core.Remedy(err))
			}
		})
	}
}

// TestANodeThatDoesNotListenIsNotThereYet: its hosts are held, but nothing was started on
// them, or not when its record was read, which has no key.
func TestANodeThatDoesNotListenIsNotThereYet(t *testing.T) {
	for name, head := range map[string]*controltest.Head{"nothing was started": nil, "started meanwhile": controltest.Succeeding()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			run := w.submitJob(t, controltest.Movable())
			o := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
			w.sites["a"].Held[o], w.sites["a"].Head = true, head
			at := state.Attempt{Run: run.ID, N: 1, Site: "a", Started: time.Now(), Lease: &core.Handle{Driver: "fake", Version: 1, Owner: o, Data: []byte("{}")}}
			if err := w.Store.PutAttempt(t.Context(), at, false); err != nil {
				t.Fatal(err)
			}
			_, err := w.DialNode(t.Context(), run, 0)
			if !core.IsKind(err, core.NotFound) || !strings.Contains(core.Remedy(err), "bee show "+run.ID) {
				t.Errorf("got %v (%s), remedy %q", err, core.KindOf(err), core.Remedy(err))
			}
		})
	}
}
