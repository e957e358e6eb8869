package submission

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestRunsThatWouldWriteOnePlace are refused while one of them is not over, whatever number
// is submitted at the same time.
func TestRunsThatWouldWriteOnePlace(t *testing.T) {
	store, to := newStore(t), t.TempDir()
	job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/*.dat", To: to}}}
	const runs = 8
	var (
		submitted [runs]state.Run
		errs      [runs]error
		all       sync.WaitGroup
	)
	for i := range runs {
		all.Go(func() {
			run, lock, err := Submit(t.Context(), store, Submission{Job: job})
			if submitted[i], errs[i] = run, err; err == nil {
				lock.Unlock()
			}
		})
	}
	all.Wait()
	var first state.Run
	accepted := 0
	for i, err := range errs {
		switch {
		case err == nil:
			accepted++
			first = submitted[i]
		case !core.IsKind(err, core.Busy):
			t.Errorf("a second run: %v", err)
		}
	}
	if accepted != 1 {
		t.Fatalf("%d of %d runs were accepted, expected 1", accepted, runs)
	}
	first.State = state.Succeeded
	if err := store.PutRun(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, lock, err := Submit(t.Context(), store, Submission{Job: job}); err != nil {
		t.Errorf("after the first is over: %v", err)
	} else {
		lock.Unlock()
	}
}

// TestTheRunsIDInAPlace is that of the run, in what its controller uses.
func TestTheRunsIDInAPlace(t *testing.T) {
	store, to := newStore(t), t.TempDir()
	job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/x", To: filepath.Join(to, spec.RunID)}}}
	var runs []state.Run
	for range 2 {
		run, lock, err := Submit(t.Context(), store, Submission{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
		runs = append(runs, run)
	}
	for _, run := range runs {
		sub, err := Of(run)
		if err != nil || sub.Job.Outputs[0].To != filepath.Join(to, run.ID) {
			t.Errorf("it comes to %s, %v", sub.Job.Outputs[0].To, err)
		}
		if !strings.Contains(string(run.Submission), spec.RunID) {
			t.Error("the record has lost the variable")
		}
	}
}

// newStore opens a new state directory.
func newStore(t *testing.T) *state.Store {
	t.Helper()
	store, err := state.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}
