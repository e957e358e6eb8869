package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestSavedMachinesMakeARun: once their own run is over, from the newest that
// is whole, which becomes the new run's first checkpoint.
func TestSavedMachinesMakeARun(t *testing.T) {
	w := newWorld(t, "a")
	job := controltest.InMachines()
	job.Image, job.Run = "debian:12", &spec.Command{Shell: "true"}
	anywhere := Foreign{Dir: t.TempDir(), Sites: func(names []string) ([]spec.Site, error) { return []spec.Site{{Name: names[0]}}, nil }, Allow: func([]spec.Reach) error { return nil }}
	job.Inputs = []spec.Input{{From: filepath.Join(t.TempDir(), "gone"), To: "/v"}}
	run := w.submitJob(t, job)
	live := func(run state.Run) {
		t.Helper()
		owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
		w.sites["a"].Held[owner] = true
		rec := state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "fake", Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}
		if err := w.Store.PutAttempt(t.Context(), rec, false); err != nil {
			t.Fatal(err)
		}
	}
	live(run)
	dir := filepath.Join(t.TempDir(), "saved")
	for i := range 3 {
		if _, err := w.Export(t.Context(), run, dir, func(into string) error { controltest.LeaveMachines(t, into, strconv.Itoa(i)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	other := w.submitJob(t, controltest.InMachines())
	live(other)
	if _, err := w.Export(t.Context(), other, dir, nil); !core.IsKind(err, core.Invalid) {
		t.Errorf("another run's machines in the same place: %v", err)
	}
	plain := w.submitJob(t, spec.Job{Name: "plain", Nodes: 1, VM: &spec.VM{}, Volume: spec.Volume{Path: "/v"}})
	live(plain)
	for _, name := range []string{"run.json", "mine"} {
		mine := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, into := range []string{mine, filepath.Dir(mine)} {
			if _, err := w.Export(t.Context(), run, into, nil); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
				t.Errorf("a place that has something else, %s: %v", into, err)
			}
		}
		if got, err := os.ReadFile(mine); err != nil || string(got) != "mine" {
			t.Errorf("what was there is now %q, %v", got, err)
		}
	}
	untouched := filepath.Join(t.TempDir(), "saved")
	if _, err := w.Export(t.Context(), plain, untouched, nil); !core.IsKind(err, core.Unsupported) {
		t.Errorf("machines that cannot be saved: %v", err)
	}
	if _, err := os.Lstat(untouched); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("they left a directory that has none: %v", err)
	}
	if _, _, err := w.Import(t.Context(), dir, anywhere); !core.IsKind(err, core.Busy) || !strings.Contains(core.Remedy(err), run.ID) {
		t.Errorf("machines of a run that continues: %v", err)
	}
	run.State = state.Stopped
	if err := w.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	memory := func(volume string) string { return filepath.Join(protocol.SavedPart(volume, 0), "memory") }
	list, err := w.Kept().OpenDir(dir).List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("kept are %+v, %v", list, err)
	}
	if err := os.WriteFile(memory(list[1].Dir), []byte("rot"), 0o644); err != nil {
		t.Fatal(err)
	}
	again, lock, err := w.Import(t.Context(), dir, anywhere)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	// Those of another directory are the same, too, and so are the run's own.
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{dir, copied} {
		if _, _, err := w.Import(t.Context(), from, anywhere); !core.IsKind(err, core.Busy) || !strings.Contains(core.Remedy(err), again.ID) {
			t.Errorf("machines that were brought up, once more: %v", err)
		}
	}
	source := run
	source.State = state.Suspended
	if err := w.Store.PutRun(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Resume(t.Context(), source, nil); !core.IsKind(err, core.Busy) || !strings.Contains(core.Remedy(err), again.ID) {
		t.Errorf("their first run, beside them: %v", err)
	}
	own, err := w.Kept().OpenDir(w.Kept().Dir(again.ID)).List(t.Context())
	if err != nil || len(own) != 1 || own[0].Attempt != 0 {
		t.Fatalf("the new run has %+v, %v", own, err)
	}
	if raw, err := os.ReadFile(memory(own[0].Dir)); err != nil || string(raw) != "1" {
		t.Errorf("the new run continues from %q, %v", raw, err)
	}
	// What the first run was made of may be gone: it is in the machines.
	w.Images = controltest.Images{Err: errors.New("the tag means nothing any more")}
	if got, err := w.Drive(t.Context(), again.ID, nil); err != nil || got.State != state.Succeeded || got.Image != "image" {
		t.Errorf("the new run: %s, %s", got.State, got.Message)
	}
	if source, err = w.Resume(t.Context(), source, nil); err != nil || source.State != state.Queued {
		t.Errorf("their first run, after them: %s, %v", source.State, err)
	}
	if _, _, err := w.Import(t.Context(), dir, anywhere); !core.IsKind(err, core.Busy) || !strings.Contains(core.Remedy(err), source.ID) {
		t.Errorf("once more, beside their first run: %v", err)
	}
	// Another installation knows none of the runs.
	far := newWorld(t, "a")
	var warned []string
	far.Report = func(e protocol.Event) { warned = append(warned, e.Message) }
	if _, lock, err := far.Import(t.Context(), dir, anywhere); err != nil {
		t.Error(err)
	} else {
		defer lock.Unlock()
	}
	if all := strings.Join(warned, "\n"); !strings.Contains(all, run.ID) || !strings.Contains(all, again.ID) {
		t.Errorf("the runs that it cannot know of are not all in %q", all)
	}
	if _, _, err := w.Import(t.Context(), t.TempDir(), anywhere); !core.IsKind(err, core.NotFound) {
		t.Errorf("a directory without any: %v", err)
	}
}

// TestSavedMachinesThatChangeWhileTheyAreCopied are none that the user has agreed to.
func TestSavedMachinesThatChangeWhileTheyAreCopied(t *testing.T) {
	w := newWorld(t, "a")
	job := controltest.InMachines()
	job.Image, job.Run = "debian:12", &spec.Command{Shell: "true"}
	run := w.submitJob(t, job)
	owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
	w.sites["a"].Held[owner] = true
	rec := state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "fake", Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}
	if err := w.Store.PutAttempt(t.Context(), rec, false); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "saved")
	if _, err := w.Export(t.Context(), run, dir, func(into string) error { controltest.LeaveMachines(t, into, "memory"); return nil }); err != nil {
		t.Fatal(err)
	}
	run.State = state.Stopped
	if err := w.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	list, err := w.Kept().OpenDir(dir).List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	f := Foreign{Dir: t.TempDir(), Sites: func([]string) ([]spec.Site, error) { return []spec.Site{{Name: "a"}}, nil }}
	f.Allow = func([]spec.Reach) error {
		return os.WriteFile(filepath.Join(protocol.SavedPart(list[0].Dir, 0), "memory"), []byte("of another"), 0o600)
	}
	if _, _, err := w.Import(t.Context(), dir, f); !core.IsKind(err, core.Invalid) {
		t.Errorf("they were taken: %v", err)
	}
	if runs, err := w.Store.Runs(t.Context(), state.Filter{}); err != nil || len(runs) != 1 {
		t.Errorf("there are %d runs, %v", len(runs), err)
	}
}
