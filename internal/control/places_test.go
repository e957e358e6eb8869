package control

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// TestRunsThatWouldWriteOnePlace are refused while one of them is not over, whatever number
// is submitted at the same time.
func TestRunsThatWouldWriteOnePlace(t *testing.T) {
	w, to := newWorld(t, "a"), t.TempDir()
	job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/*.dat", To: to}}}
	const runs = 8
	var (
		submitted [runs]state.Run
		errs      [runs]error
		all       sync.WaitGroup
	)
	for i := range runs {
		all.Go(func() {
			run, lock, err := w.Submit(t.Context(), Submission{Job: job})
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
	if err := w.Store.PutRun(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, lock, err := w.Submit(t.Context(), Submission{Job: job}); err != nil {
		t.Errorf("after the first is over: %v", err)
	} else {
		lock.Unlock()
	}
}

// TestTheRunsIDInAPlace is that of the run, in what its controller uses.
func TestTheRunsIDInAPlace(t *testing.T) {
	w, to := newWorld(t, "a"), t.TempDir()
	job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/x", To: filepath.Join(to, spec.RunID)}}}
	var runs []state.Run
	for range 2 {
		runs = append(runs, w.submitJob(t, job))
	}
	for _, run := range runs {
		sub, err := SubmissionOf(run)
		if err != nil || sub.Job.Outputs[0].To != filepath.Join(to, run.ID) {
			t.Errorf("it comes to %s, %v", sub.Job.Outputs[0].To, err)
		}
		if !strings.Contains(string(run.Submission), spec.RunID) {
			t.Error("the record has lost the variable")
		}
	}
}

// TestForeignRunsThatWouldWriteOnePlace with a run of this installation are refused until that
// is over, and nothing is asked or recorded.
func TestForeignRunsThatWouldWriteOnePlace(t *testing.T) {
	w, to := newWorld(t, "a"), t.TempDir()
	outputs := []spec.Output{{From: "/work/res", To: to}}
	asked := 0
	f := Foreign{Dir: to, Sites: func(names []string) ([]spec.Site, error) { return []spec.Site{{Name: names[0]}}, nil }, Allow: func([]spec.Reach) error { asked++; return nil }}

	job := inMachines()
	job.Image, job.Run, job.Outputs = "debian:12", &spec.Command{Shell: "true"}, outputs
	saved, dir := w.submitJob(t, job), filepath.Join(t.TempDir(), "saved")
	owner := core.Owner{User: w.Store.User(), Run: saved.ID, Attempt: 1}
	w.sites["a"].held[owner] = true
	rec := state.Attempt{Run: saved.ID, N: 1, Site: "a", Provider: "fake", Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}
	if err := w.Store.PutAttempt(t.Context(), rec, false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Export(t.Context(), saved, dir, func(into string) error { leaveMachines(t, into, "memory"); return nil }); err != nil {
		t.Fatal(err)
	}
	end := func(run state.Run) {
		t.Helper()
		run.State = state.Stopped
		if err := w.Store.PutRun(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	end(saved)

	live := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/*", To: to}}})
	stored := t.TempDir()
	w.OpenStore = func(string) (driver.Store, error) { return dirstore.Store(stored), nil }
	enter := func(id string) error {
		run := state.Run{ID: id, Name: "pi", State: state.Suspended, Created: time.Now(), Submission: []byte("{}")}
		d := control(w.Controller, run, Submission{Job: spec.Job{Store: stored, Volume: spec.Volume{Path: "/work"}, Outputs: outputs}, StoreName: "other@" + id})
		defer d.checkpoints().Close()
		_, err := w.enter(t.Context(), d, nil, []driver.Checkpoint{{Manifest: driver.Manifest{Attempt: 1}}})
		return err
	}
	if _, _, err := w.Import(t.Context(), dir, f); !core.IsKind(err, core.Busy) || !strings.Contains(core.Remedy(err), live.ID) || asked > 0 {
		t.Errorf("saved machines, asked %d times: %v", asked, err)
	}
	if err := enter("aaaa1111"); !core.IsKind(err, core.Busy) || !strings.Contains(core.Remedy(err), live.ID) {
		t.Errorf("a run from a store: %v", err)
	}
	if all, err := w.Store.Runs(t.Context(), state.Filter{}); err != nil || len(all) != 2 {
		t.Errorf("there are %d runs, %v", len(all), err)
	}
	if e, err := readExport(dir); err != nil || len(e.Restored) > 0 {
		t.Errorf("the export names runs: %q, %v", e.Restored, err)
	}

	end(live)
	restored, lock, err := w.Import(t.Context(), dir, f)
	if err != nil || asked != 1 {
		t.Fatalf("once it is over, asked %d times: %v", asked, err)
	}
	lock.Unlock()
	end(restored)
	if err := enter("aaaa1111"); err != nil {
		t.Errorf("a run from a store, once it is over: %v", err)
	}
}
