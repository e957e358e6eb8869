package runner

import (
	"errors"
	"testing"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// TestEveryPairIsRecorded has each event come in each state: also those that no history
// reaches. The record has the state that follows and the event that led there. A pair that
// cannot be is a panic, and changes nothing.
func TestEveryPairIsRecorded(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submit(t)
	for _, was := range state.AttemptStates() {
		for _, autostart := range []state.Autostart{state.NoAutostart, state.Enabled} {
			for _, e := range machinery.Events() {
				rec := &record{of: control(w.Runner, run, submission.Submission{}), Attempt: state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "local", State: was, Autostart: autostart, Started: time.Now()}}
				next, impossible := machinery.Next(was, autostart, e)
				if got := panicOf(func() { rec.on(e) }); got != nil {
					if i, is := errors.AsType[*machinery.Impossible](got); !is || impossible == nil || i.State != was || i.Event != e || rec.State != was || len(rec.changes) > 0 {
						t.Errorf("%s on %s: %v, and the state is %s", e, was, got, rec.State)
					}
					continue
				}
				if impossible != nil {
					t.Errorf("%s on %s: no panic", e, was)
				}
				if len(rec.changes) > 0 != (next != was) {
					t.Errorf("%s on %s: %d events of the change to %s", e, was, len(rec.changes), next)
				}
				if next == was { // nothing is written
					continue
				}
				if err := rec.put(t.Context()); err != nil {
					t.Fatal(err)
				}
				events, err := w.Store.History().Events(t.Context(), run.ID, event.KindAttemptState)
				if err != nil || len(events) == 0 {
					t.Fatalf("%s on %s: no events, %v", e, was, err)
				}
				if last, want := events[len(events)-1], (event.AttemptState{State: string(next), On: string(e)}); last.Attempt != 1 || last.Fields != want {
					t.Errorf("%s on %s: the event %+v, want %+v", e, was, last, want)
				}
				if list := w.attempts(t, run); len(list) != 1 || list[0].State != next || list[0].TaskBegan != (e == machinery.TaskBegins) {
					t.Errorf("%s on %s: on record is %+v, want %s", e, was, list, next)
				}
			}
		}
	}
}

// TestALostSiteTakesItsVerdictAlong: a command that succeeded says nothing of the run while
// its outputs are on a site that was declared lost.
func TestALostSiteTakesItsVerdictAlong(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submit(t)
	for name, c := range map[string]struct {
		out  outcome
		want state.Verdict
	}{
		"it continues":   {outcome{moved: true}, state.ContinuesLost},
		"it was stopped": {outcome{state: state.Stopped, err: errStopped()}, state.StoppedByUser},
	} {
		rec := &record{of: control(w.Runner, run, submission.Submission{}), lost: &siteLost{}}
		rec.Attempt = state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "local", State: state.Collecting, Result: state.Exited, Verdict: state.Completed, Started: time.Now()}
		if rec.forsake(c.out); rec.State != state.Releasing || rec.Verdict != c.want {
			t.Errorf("%s: on record is %s with %s, want %s", name, rec.State, rec.Verdict, c.want)
		}
	}
}

// panicOf returns the error with which f panics; nil: it does not.
func panicOf(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}
