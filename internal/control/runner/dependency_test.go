package runner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestDependencies: a run begins when those have ended that it waits for, also for a
// controller that comes later, or never.
func TestDependencies(t *testing.T) {
	for _, c := range []struct {
		on    string
		code  int // of the run that is waited for
		state state.RunState
	}{
		{"", 0, state.Succeeded},
		{spec.AfterFailure, 7, state.Succeeded},
		{spec.AfterEnd, 7, state.Succeeded},
		{spec.AfterEnd, 0, state.Succeeded},
		{"", 7, state.Failed},
		{spec.AfterFailure, 0, state.Failed},
	} {
		t.Run(fmt.Sprintf("%s of a run with exit code %d", c.on, c.code), func(t *testing.T) {
			w := newWorld(t, "a", "b")
			w.sites["a"].Head = controltest.Exiting(c.code)
			prep := w.submitOn(t, "a", spec.Job{Name: "prep", Nodes: 1, Volume: spec.Volume{Path: "/work"}})
			run := w.submitOn(t, "b", spec.Job{Name: "model", Nodes: 1, Volume: spec.Volume{Path: "/work"}, After: []spec.After{{Run: "prep", On: c.on}}})

			type end struct {
				run state.Run
				err error
			}
			waiting := make(chan end, 1)
			go func() {
				got, err := w.Drive(t.Context(), run.ID, nil)
				waiting <- end{got, err}
			}()
			testkit.Eventually(t, time.Minute, func() error {
				events, err := w.Store.History().Events(t.Context(), run.ID, event.KindDependency)
				if err == nil && len(events) == 0 {
					err = errors.New("the run does not wait")
				}
				return err
			})
			if attempts, err := w.Store.Attempts(t.Context(), run.ID); err != nil || len(attempts) > 0 {
				t.Errorf("%v: %d attempts before the other run has ended", err, len(attempts))
			}
			if needed, err := submission.NeededBy(t.Context(), w.Store, prep.ID); err != nil || needed != run.ID {
				t.Errorf("%v: needed by %q", err, needed)
			}
			over := prep
			over.State = state.Stopped
			if err := w.Garbage().Forget(t.Context(), over, gc.Leaving{OnlyCopies: true}); !core.IsKind(err, core.Busy) {
				t.Errorf("a run that another one waits for is removed: %v", err)
			}
			w.drive(t, prep, nil)
			got := <-waiting
			if got.err != nil || got.run.State != c.state || strings.Contains(got.run.Message, prep.ID) != (c.state == state.Failed) {
				t.Errorf("%v: %+v", got.err, got.run)
			}
			if needed, err := submission.NeededBy(t.Context(), w.Store, prep.ID); err != nil || needed != "" {
				t.Errorf("%v: needed by %q, which is over", err, needed)
			}
		})
	}
}

func (w *world) submitOn(t *testing.T, site string, job spec.Job) state.Run {
	t.Helper()
	run, lock, err := submission.Submit(t.Context(), w.Store, submission.Submission{Job: job, Sites: []spec.Site{{Name: site, Provider: "fake"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Unlock() })
	w.lock = lock
	return run
}

// TestDependenciesEndEarly: a run that waits can be stopped, and one whose other run was
// removed fails.
func TestDependenciesEndEarly(t *testing.T) {
	w := newWorld(t, "a")
	prep := w.submitJob(t, spec.Job{Name: "prep", Nodes: 1, Volume: spec.Volume{Path: "/work"}})
	after := spec.Job{Name: "model", Nodes: 1, Volume: spec.Volume{Path: "/work"}, After: []spec.After{{Run: prep.ID[:5]}}}
	run, stop := w.submitJob(t, after), make(chan struct{})
	close(stop)
	if got := w.drive(t, run, stop); got.State != state.Stopped {
		t.Errorf("got %+v", got)
	}
	run = w.submitJob(t, after)
	if err := w.Store.RemoveRun(t.Context(), prep.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.drive(t, run, nil); got.State != state.Failed || !strings.Contains(got.Message, prep.ID) {
		t.Errorf("got %+v", got)
	}
	if _, _, err := submission.Submit(t.Context(), w.Store, submission.Submission{Job: after}); !core.IsKind(err, core.NotFound) {
		t.Errorf("a job that waits for no run is submitted: %v", err)
	}
}

// TestOutputsOfDependencies may come to one place, as one run is over when the other begins.
func TestOutputsOfDependencies(t *testing.T) {
	w, to := newWorld(t, "a"), t.TempDir()
	job := func(name string, after ...spec.After) spec.Job {
		return spec.Job{Name: name, Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/res", To: to}}, After: after}
	}
	w.submitJob(t, job("first"))
	w.submitJob(t, job("second", spec.After{Run: "first"}))
	w.submitJob(t, job("third", spec.After{Run: "second"}))
	if _, _, err := submission.Submit(t.Context(), w.Store, submission.Submission{Job: job("another")}); !core.IsKind(err, core.Busy) {
		t.Errorf("two runs that may run at the same time have one place for their outputs: %v", err)
	}
}
