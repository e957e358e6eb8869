package runner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// arrayOf are the cases of an array, of which so many run at once.
func arrayOf(n, atOnce int, to func(number int) string) []submission.Submission {
	id, subs := state.NewID(), make([]submission.Submission, n)
	for i := range subs {
		job := spec.Job{Name: fmt.Sprintf("model.%d", i+1), Nodes: 1, Volume: spec.Volume{Path: "/work"}}
		if to != nil {
			job.Outputs = []spec.Output{{From: "/work/out", To: to(i + 1)}}
		}
		subs[i] = submission.Submission{Job: job, Sites: []spec.Site{{Name: fmt.Sprintf("s%d", i+1), Provider: "fake"}}, Array: &submission.ArrayCase{ID: id, Name: "model", Number: i + 1, Of: n, AtOnce: atOnce}}
	}
	return subs
}

// TestCasesBeginInTurn: a case waits for those before it, also for a controller that comes
// later, and a run after the array waits for all.
func TestCasesBeginInTurn(t *testing.T) {
	w := newWorld(t, "s1", "s2", "s3", "s4")
	runs, err := submission.SubmitArray(t.Context(), w.Store, arrayOf(3, 1, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs { // as their supervisor does
		lock, err := w.Store.Locks().Acquire(run.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Unlock()
	}
	after := spec.Job{Name: "plot", Nodes: 1, Volume: spec.Volume{Path: "/work"}, After: []spec.After{{Run: "model"}}}
	plot := w.submitOn(t, "s4", after)
	type end struct {
		run state.Run
		err error
	}
	ends := make(chan end, 3)
	for _, run := range []state.Run{plot, runs[2], runs[1]} {
		go func() {
			got, err := w.Drive(t.Context(), run.ID, nil)
			ends <- end{got, err}
		}()
	}
	for _, run := range []state.Run{plot, runs[2], runs[1]} {
		testkit.Eventually(t, time.Minute, func() error {
			e, is, err := w.Store.History().Last(t.Context(), run.ID)
			if err == nil && (!is || !e.Is(event.KindArrayFull) && !e.Is(event.KindDependency)) {
				err = errors.New("run " + run.Name + " does not wait")
			}
			return err
		})
		if attempts, err := w.Store.Attempts(t.Context(), run.ID); err != nil || len(attempts) > 0 {
			t.Errorf("%v: run %s has %d attempts before its turn", err, run.Name, len(attempts))
		}
	}
	if needed, err := submission.NeededBy(t.Context(), w.Store, runs[0].ID); err != nil || needed != plot.ID {
		t.Errorf("%v: the case is needed by %q", err, needed)
	}
	if got := w.drive(t, runs[0], nil); got.State != state.Succeeded {
		t.Errorf("%+v", got)
	}
	for range 3 {
		if e := <-ends; e.err != nil || e.run.State != state.Succeeded {
			t.Errorf("%v: %+v", e.err, e.run)
		}
	}
	array, err := w.Store.Arrays().Array(t.Context(), runs[0].Case.Array)
	if err != nil || array.State() != state.Succeeded || array.Cases() != 3 {
		t.Errorf("%v: %+v", err, array)
	}
	begun := time.Time{} // of the case before
	for _, run := range runs {
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || len(attempts) != 1 || attempts[0].Started.Before(begun) {
			t.Fatalf("%v: case %d began before the one before it had ended: %+v", err, run.Case.Number, attempts)
		}
		now, err := w.Store.Run(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		begun = now.Ended
	}
}

// TestArraysAreSubmittedWhole, or not at all.
func TestArraysAreSubmittedWhole(t *testing.T) {
	w, dir := newWorld(t, "s1", "s2", "s3"), t.TempDir()
	taken := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/out", To: dir + "/2"}}})
	one := func(int) string { return dir }
	each := func(n int) string { return fmt.Sprintf("%s/%d", dir, n) }
	for want, to := range map[core.Kind]func(int) string{core.Invalid: one, core.Busy: each} {
		if _, err := submission.SubmitArray(t.Context(), w.Store, arrayOf(3, 0, to)); !core.IsKind(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if runs, err := w.Store.Runs(t.Context(), state.Filter{}); err != nil || len(runs) != 1 || runs[0].ID != taken.ID {
		t.Errorf("%v: %d runs", err, len(runs))
	}
	if _, err := submission.SubmitArray(t.Context(), w.Store, arrayOf(3, 0, func(int) string { return dir + "/" + spec.RunID })); err != nil {
		t.Error(err)
	}
}

// TestAnArrayStops: once so many cases have failed, no further one begins, also in place of
// one that has ended, and each shows why.
func TestAnArrayStops(t *testing.T) {
	w := newWorld(t, "s1", "s2", "s3", "s4")
	w.sites["s1"].Head, w.sites["s2"].Head = controltest.Exiting(3), controltest.Exiting(3)
	subs := arrayOf(4, 1, nil)
	for i := range subs {
		subs[i].Array.OnFailure = spec.OnFailure{At: "50%"}
	}
	runs, err := submission.SubmitArray(t.Context(), w.Store, subs)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []state.RunState{state.Failed, state.Failed, state.Stopped, state.Stopped} {
		lock, err := w.Store.Locks().Acquire(runs[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Unlock()
		// No stop is passed on: the record alone counts.
		got, err := w.Drive(t.Context(), runs[i].ID, nil)
		if err != nil || got.State != want || want == state.Stopped && got.Kind != core.Stopped.String() {
			t.Errorf("case %d: %v: %+v", i+1, err, got)
		}
		if attempts, err := w.Store.Attempts(t.Context(), runs[i].ID); err != nil || len(attempts) > 0 != (want == state.Failed) {
			t.Errorf("case %d: %v, %d attempts", i+1, err, len(attempts))
		}
	}
}
