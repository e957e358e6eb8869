package runner

import (
	"errors"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/control/request"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// answered fails unless the requests of a run have these results, in this order.
func (w *world) answered(t *testing.T, run string, want ...state.RequestResult) {
	t.Helper()
	list, err := w.Store.Requests().Of(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	var got []state.RequestResult
	for _, r := range list {
		got = append(got, r.Result)
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests %+v, want results %q", list, want)
	}
}

// TestAResumeOutlivesItsCommand: the next controller resumes a run for which it is asked,
// once, and on the sites that were named. One of an attempt that is not the last is overtaken.
func TestAResumeOutlivesItsCommand(t *testing.T) {
	for name, c := range map[string]struct {
		state   state.RunState
		earlier int // attempts by which the request is late
		ends    state.RunState
		result  state.RequestResult
	}{
		"a suspended run":        {state.Suspended, 0, state.Succeeded, state.RequestDone},
		"one that was set aside": {state.SetAside, 0, state.Succeeded, state.RequestDone},
		"one that was resumed":   {state.Suspended, 1, state.Suspended, state.RequestOvertaken},
		"one that was stopped":   {state.Stopped, 0, state.Stopped, state.RequestOvertaken},
	} {
		t.Run(name, func(t *testing.T) {
			w, run := savedWithNowhereToGo(t)
			run = w.drive(t, run, nil)
			if run.State = c.state; c.state == state.Stopped {
				run.State = state.Suspended
			}
			if err := w.Store.PutRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			attempts := w.attempts(t, run)
			attempts = attempts[:len(attempts)-c.earlier]
			if _, err := (request.Requests{Store: w.Store}).Ask(t.Context(), run.ID, attempts, state.RequestResume, []spec.Site{{Name: "b", Provider: "fake"}}); err != nil {
				t.Fatal(err)
			}
			results := []state.RequestResult{c.result}
			if c.state == state.Stopped {
				if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
					t.Fatal(err)
				}
				results = append(results, state.RequestDone)
			}
			w.sites["b"].Facts = driver.Facts{Usable: true}
			if got := w.drive(t, run, nil); got.State != c.ends {
				t.Errorf("got %+v, want a run that is %s", got, c.ends)
			}
			w.answered(t, run.ID, results...)
			if last := w.attempts(t, run); c.ends == state.Succeeded && last[len(last)-1].Site != "b" {
				t.Errorf("it continued on %q", last[len(last)-1].Site)
			}
		})
	}
}

// TestACheckpointIsARequest, with the result that its head gave.
func TestACheckpointIsARequest(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submit(t)
	if err := (request.Requests{Store: w.Store}).Checkpoint(t.Context(), run, 1, func() error { w.answered(t, run.ID, state.RequestOpen); return nil }); err != nil {
		t.Fatal(err)
	}
	no := errors.New("nothing to save")
	if err := (request.Requests{Store: w.Store}).Checkpoint(t.Context(), run, 1, func() error { return no }); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	w.answered(t, run.ID, state.RequestDone, state.RequestRefused)
	if _, err := w.Resume(t.Context(), run, nil); !core.IsKind(err, core.Invalid) {
		t.Errorf("a queued run is resumed: %v", err)
	}
	w.answered(t, run.ID, state.RequestDone, state.RequestRefused)
}
