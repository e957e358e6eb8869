package submission

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// reading is a job with an input of an earlier run.
func reading(name, run, path string) spec.Job {
	return spec.Job{Name: name, Nodes: 1, Volume: spec.Volume{Path: "/work"}, After: []spec.After{{Run: run}}, Inputs: []spec.Input{{Earlier: spec.RunPath{Run: run, Path: path}, To: "/in"}}}
}

// submitted records a run, and gives its lock back.
func submitted(t *testing.T, store *state.Store, job spec.Job) (state.Run, error) {
	t.Helper()
	run, lock, err := Submit(t.Context(), store, Submission{Job: job})
	if err == nil {
		lock.Unlock()
	}
	return run, err
}

// TestVolumesThatAreRead are needed as long as a run that reads them can still begin, or is not
// over.
func TestVolumesThatAreRead(t *testing.T) {
	store := newStore(t)
	prep, err := submitted(t, store, alone("prep", "").Runs[0].Job)
	if err != nil {
		t.Fatal(err)
	}
	run, err := submitted(t, store, reading("model", prep.ID[:6], "./mesh/"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ended state.RunState
		needs bool
	}{{"", true}, {state.Succeeded, true}, {state.Failed, false}, {state.Stopped, false}} {
		list, err := ReadersOf(t.Context(), store, prep.ID, c.ended)
		if err != nil || (len(list) == 1) != c.needs || c.needs && (list[0].Run != run.ID || len(list[0].Paths) != 1 || list[0].Paths[0] != "mesh") {
			t.Errorf("%q: %+v, %v", c.ended, list, err)
		}
	}
	attempt := state.Attempt{Run: run.ID, N: 1}
	if err := store.PutAttempt(t.Context(), attempt, false); err != nil { // it has begun, and may begin again
		t.Fatal(err)
	}
	if needed, err := NeededBy(t.Context(), store, prep.ID); err != nil || needed != run.ID {
		t.Errorf("%v: needed by %q", err, needed)
	}
	run.State = state.Stopped
	if err := store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if needed, err := NeededBy(t.Context(), store, prep.ID); err != nil || needed != "" {
		t.Errorf("%v: needed by %q, which is over", err, needed)
	}
	if err := retention.DependentsOf(store, prep.ID).Add("ffff0000"); err != nil { // its submission was cut short
		t.Fatal(err)
	}
	if list, err := ReadersOf(t.Context(), store, prep.ID, ""); err != nil || len(list) > 0 {
		t.Errorf("%v: %+v", err, list)
	}
}

// TestVolumesThatCannotBeRead are refused at submission, and nothing is recorded.
func TestVolumesThatCannotBeRead(t *testing.T) {
	burst, guests := alone("burst", "").Runs[0].Job, alone("guests", "").Runs[0].Job
	burst.Volume.Kind, guests.VM = spec.VolumeBurst, &spec.VM{When: spec.VMAlways}
	study := func(pack int) Submission {
		s := alone("study", "").Runs[0]
		s.Array = &ArrayCase{ID: "dddd4444", Name: "study", Number: 1, Of: 1, Pack: pack}
		s.Job.Name = "study.1"
		return s
	}
	store := newStore(t)
	for _, job := range []spec.Job{burst, guests} {
		if _, err := submitted(t, store, job); err != nil {
			t.Fatal(err)
		}
		if _, err := submitted(t, store, reading("model", job.Name, "out")); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("%s: %v", job.Name, err)
		}
	}
	if _, err := SubmitArray(t.Context(), store, []Submission{study(0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := submitted(t, store, reading("model", "study", "out")); !core.IsKind(err, core.Unsupported) {
		t.Errorf("an array: %v", err)
	}
	if _, err := submitted(t, store, reading("model", "study.1", "out")); err != nil {
		t.Errorf("a case: %v", err)
	}
	packed := newStore(t)
	if _, err := SubmitArray(t.Context(), packed, []Submission{study(1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := submitted(t, packed, reading("model", "study.1", "out")); !core.IsKind(err, core.Unsupported) {
		t.Errorf("a case of a pack: %v", err)
	}
	ticket := Submission{Job: reading("model", "burst", "out"), Ticket: Sealed}
	if _, _, err := Submit(t.Context(), store, ticket); !core.IsKind(err, core.Unsupported) {
		t.Errorf("a run with a ticket: %v", err)
	}
	stray := reading("model", "burst", "out") // as a case of an array in a file with others may name another run
	stray.After = nil
	if _, err := submitted(t, store, stray); !core.IsKind(err, core.Invalid) {
		t.Errorf("a run that is not waited for: %v", err)
	}
	if runs, err := packed.Runs(t.Context(), state.Filter{}); err != nil || len(runs) != 2 {
		t.Errorf("%v: on record are %d runs, want the case and its pack", err, len(runs))
	}
}

// TestVolumesThatAreGone: what was collected of them is used as long as it is as the run has
// left it.
func TestVolumesThatAreGone(t *testing.T) {
	store, to := newStore(t), t.TempDir()
	job := alone("prep", "").Runs[0].Job
	job.Outputs = []spec.Output{{From: "out/*.dat", To: to}, {From: "/work/mesh", To: to}}
	prep, err := submitted(t, store, job)
	if err != nil {
		t.Fatal(err)
	}
	prep.State = state.Succeeded
	if err := store.PutRun(t.Context(), prep); err != nil {
		t.Fatal(err)
	}
	var written []state.Written
	for _, name := range []string{"a.dat", "mesh/grid/1", "b.dat"} {
		file := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		written = append(written, state.Written{Path: file, Size: info.Size(), Modified: info.ModTime()})
	}
	if err := store.PutWritten(t.Context(), prep, written); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "b.dat"), []byte("changed since then"), 0o600); err != nil {
		t.Fatal(err)
	}
	passed := func(path string) string { return retention.PassedAt(store.RunDir(prep.ID), path) }
	for _, path := range []string{"kept", "pass/ed"} {
		if err := os.MkdirAll(filepath.Dir(passed(path)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc/passwd", passed("kept")), os.MkdirAll(passed("pass/ed"), 0o700), os.WriteFile(filepath.Join(passed("pass/ed"), "x"), nil, 0o600)); err != nil { // the link leads out, and is not used
		t.Fatal(err)
	}
	for path, file := range map[string]string{"out/a.dat": "a.dat", "mesh": "mesh", "mesh/grid": "mesh/grid", "mesh/./grid/1": "mesh/grid/1", "out/b.dat": "", "other": "", ".": "", "kept": "", "out/c.dat": "", "pass": ""} {
		_, err := submitted(t, store, reading("model", "prep", path))
		if (err == nil) != (file != "") || err != nil && (!core.IsKind(err, core.NotFound) || core.Remedy(err) == "") {
			t.Errorf("%s: %v", path, err)
		}
		dir, got, is, err := LocalCopy(t.Context(), store, Source{prep.ID, "prep", filepath.Clean(path)})
		if err != nil || is != (file != "") || is && (got != filepath.Join(to, file) || dir != to) {
			t.Errorf("%s: it is %q in %q, %v", path, got, dir, err)
		}
	}
	for _, path := range []string{"pass/ed", "pass/ed/x"} {
		if _, err := submitted(t, store, reading("model", "prep", path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestPacksThatRead: the run with the lease of the cases is the one that needs the volume.
func TestPacksThatRead(t *testing.T) {
	store := newStore(t)
	prep, err := submitted(t, store, alone("prep", "").Runs[0].Job)
	if err != nil {
		t.Fatal(err)
	}
	var subs []Submission
	for n := range 4 {
		subs = append(subs, Submission{Job: reading("study", "prep", "mesh"), Array: &ArrayCase{ID: "dddd4444", Name: "study", Number: n + 1, Of: 4, Pack: 2}})
	}
	runs, err := SubmitArray(t.Context(), store, subs)
	if err != nil {
		t.Fatal(err)
	}
	list, err := ReadersOf(t.Context(), store, prep.ID, "")
	if err != nil || len(list) != 2 || !slices.ContainsFunc(list, func(r Reader) bool { return r.Run == runs[0].Case.Pack }) {
		t.Errorf("%v: read by %+v", err, list)
	}
}
