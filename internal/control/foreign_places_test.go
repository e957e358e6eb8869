package control

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// TestForeignRunsThatWouldWriteOnePlace with a run of this installation are refused until that
// is over, and nothing is asked or recorded.
func TestForeignRunsThatWouldWriteOnePlace(t *testing.T) {
	w, to := newWorld(t, "a"), t.TempDir()
	outputs := []spec.Output{{From: "/work/res", To: to}}
	asked := 0
	f := Foreign{Dir: to, Sites: func(names []string) ([]spec.Site, error) { return []spec.Site{{Name: names[0]}}, nil }, Allow: func([]spec.Reach) error { asked++; return nil }}

	job := controltest.InMachines()
	job.Image, job.Run, job.Outputs = "debian:12", &spec.Command{Shell: "true"}, outputs
	saved, dir := w.submitJob(t, job), filepath.Join(t.TempDir(), "saved")
	owner := core.Owner{User: w.Store.User(), Run: saved.ID, Attempt: 1}
	w.sites["a"].Held[owner] = true
	rec := state.Attempt{Run: saved.ID, N: 1, Site: "a", Provider: "fake", Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}
	if err := w.Store.PutAttempt(t.Context(), rec, false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Export(t.Context(), saved, dir, func(into string) error { controltest.LeaveMachines(t, into, "memory"); return nil }); err != nil {
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
		sub := submission.Submission{Job: spec.Job{Store: stored, Volume: spec.Volume{Path: "/work"}, Outputs: outputs}, StoreName: "other@" + id}
		kept := w.Kept().Of(&run, sub.Job.Store, sub.StoreName)
		defer kept.Close()
		_, err := w.enter(t.Context(), run, &sub, kept, nil, []driver.Checkpoint{{Manifest: driver.Manifest{Attempt: 1}}})
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
