package runner

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestAnEndThatWasNotRecorded: who died after a run's last attempt was released, and
// before that the run is over was written, has not made another. It is not done again.
func TestAnEndThatWasNotRecorded(t *testing.T) {
	for _, c := range []struct {
		exit, retry, attempts int
		want                  state.RunState
	}{
		{0, 0, 1, state.Succeeded},
		{7, 0, 1, state.Failed},
		{7, 1, 2, state.Failed},
	} {
		w := newWorld(t, "a")
		w.sites["a"].Head = controltest.Exiting(c.exit)
		run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Retry: c.retry, Volume: spec.Volume{Path: "/work"}})
		if got := w.drive(t, run, nil); got.State != c.want {
			t.Fatalf("got %+v", got)
		}
		for range 2 {
			run.State = state.Running
			if err := w.Store.PutRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			got := w.drive(t, run, nil)
			attempts, err := w.Store.Attempts(t.Context(), run.ID)
			if err != nil || got.State != c.want || got.ExitCode == nil || *got.ExitCode != c.exit || len(attempts) != c.attempts {
				t.Errorf("%+v: it is %s with code %v after %d attempts, %v", c, got.State, got.ExitCode, len(attempts), err)
			}
		}
		w.nothingHeld(t)
	}
}

// TestAStopWhileARunWaitsToBeTriedAgain, by who comes after the controller that had it wait.
func TestAStopWhileARunWaitsToBeTriedAgain(t *testing.T) {
	w := newWorld(t, "a")
	w.sites["a"].Head = controltest.Exiting(7)
	run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Retry: 0, Volume: spec.Volume{Path: "/work"}})
	w.drive(t, run, nil)
	run.State = state.Queued
	if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.Requests().AskStop(t.Context(), run.ID)); err != nil {
		t.Fatal(err)
	}
	if got := w.drive(t, run, nil); got.State != state.Stopped {
		t.Errorf("it is %s", got.State)
	}
}

// TestALateReleaseCostsNothing: what could not be given back when an attempt was over is
// no time of the attempt's.
func TestALateReleaseCostsNothing(t *testing.T) {
	w := newWorld(t, "a")
	w.sites["a"].Head = controltest.Succeeding()
	run := w.submit(t)
	w.drive(t, run, nil)
	attempts, err := w.Store.Attempts(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	at := attempts[0]
	at.Started, at.Ended, at.State = time.Now().Add(-11*time.Hour), time.Now().Add(-10*time.Hour), state.Releasing
	run.State = state.Running
	if err := w.Store.PutAttempt(t.Context(), at, false); err != nil {
		t.Fatal(err)
	}
	if err := w.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.drive(t, run, nil)
	if attempts, err = w.Store.Attempts(t.Context(), run.ID); err != nil || !attempts[0].Released() || !attempts[0].Ended.Equal(at.Ended) {
		t.Errorf("it ended %v and not %v, %v", attempts[0].Ended, at.Ended, err)
	}
}

// TestDirectoriesWithoutRecord: what a run that was never recorded, or is forgotten, has
// left is removed. What nobody can explain is kept.
func TestDirectoriesWithoutRecord(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submit(t)
	begun, removed, unknown, stuck := state.NewID(), state.NewID(), state.NewID(), state.NewID()
	if err := w.Store.Forget(t.Context(), removed, ""); err != nil {
		t.Fatal(err)
	}
	for id, file := range map[string]string{begun: "checkpoints/1/manifest.json", removed: "checkpoints/1/manifest.json", unknown: "checkpoints/1/manifest.json", stuck: "lock", run.ID: "checkpoints/1/manifest.json"} {
		file = filepath.Join(w.Store.RunDir(id), file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if id == begun {
			continue
		}
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(w.Store.RunDir(id), long, long); err != nil {
			t.Fatal(err)
		}
	}
	for _, how := range []gc.Sweeping{{Dry: true}, {}, {Force: true}} {
		found, err := w.Garbage().Sweep(t.Context(), nil, nil, how)
		kept := map[string]bool{}
		for _, f := range found {
			kept[f.Owner] = f.Kept != ""
		}
		want := map[string]bool{removed: false, stuck: false, unknown: true}
		if how.Force {
			want = map[string]bool{unknown: false}
		}
		if err != nil || !maps.Equal(kept, want) {
			t.Errorf("%+v: found %+v, %v", how, found, err)
		}
		for id, stays := range map[string]bool{begun: true, removed: how.Dry, stuck: how.Dry, unknown: !how.Force, run.ID: true} {
			if _, err := os.Stat(w.Store.RunDir(id)); (err == nil) != stays {
				t.Errorf("%+v: %s: %v", how, id, err)
			}
		}
	}
}
