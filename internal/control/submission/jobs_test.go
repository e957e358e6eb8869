package submission

import (
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// alone is a job of one run, with an output to a directory; "": it has none.
func alone(name, to string, links ...Link) Job {
	job := spec.Job{Name: name, Nodes: 1, Volume: spec.Volume{Path: "/work"}}
	if to != "" {
		job.Outputs = []spec.Output{{From: "/work/out", To: to}}
	}
	return Job{Runs: []Submission{{Job: job}}, Links: links}
}

// TestJobsAreSubmittedTogether: each waits for the runs of those that it names, by id, and is
// newer than these, whatever their order in the file.
func TestJobsAreSubmittedTogether(t *testing.T) {
	store := newStore(t)
	old, lock, err := Submit(t.Context(), store, alone("mesh", "").Runs[0])
	if err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	study := Job{Links: []Link{{2, spec.AfterSuccess}}}
	for n := range 2 {
		s := alone("study", "").Runs[0]
		s.Array = &ArrayCase{ID: "dddd4444", Name: "study", Number: n + 1, Of: 2, Pack: 2}
		study.Runs = append(study.Runs, s)
	}
	plot := alone("plot", "", Link{1, spec.AfterEnd}, Link{2, spec.AfterSuccess})
	plot.After = []Dependency{{Run: old.ID, Name: "mesh", On: spec.AfterFailure}}
	jobs := []Job{plot, study, alone("mesh", "")}
	runs, err := SubmitJobs(t.Context(), store, jobs)
	if err != nil || len(runs) != 3 || len(runs[0]) != 1 || len(runs[1]) != 2 || len(runs[2]) != 1 {
		t.Fatalf("%v: %v", err, runs)
	}
	all, err := store.Runs(t.Context(), state.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	after := map[string][]Dependency{}
	for _, run := range slices.Backward(all) { // oldest first
		sub, err := Of(run)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, run.Name)
		after[run.Name] = sub.After
	}
	if got := strings.Join(names, " "); got != "mesh mesh study.packs.1 study study plot" && got != "mesh mesh study study.packs.1 study plot" {
		t.Errorf("they are %s", got)
	}
	mesh := runs[2][0].ID
	for name, want := range map[string][]Dependency{
		"study":         {{Run: mesh, Name: "mesh", On: "success"}},
		"study.packs.1": {{Run: mesh, Name: "mesh", On: "success"}},
		"plot":          {{Run: old.ID, Name: "mesh", On: "failure"}, {Run: "dddd4444", Name: "study", On: "end", Array: true}, {Run: mesh, Name: "mesh", On: "success"}},
	} {
		if !slices.Equal(after[name], want) {
			t.Errorf("%s waits for %+v, want %+v", name, after[name], want)
		}
	}
	if needed, err := NeededBy(t.Context(), store, runs[1][0].ID); err != nil || needed != runs[0][0].ID {
		t.Errorf("%v: a case is needed by %q", err, needed)
	}
}

// TestJobsThatWouldWriteOnePlace are refused, all of them, unless one is over when the other begins.
func TestJobsThatWouldWriteOnePlace(t *testing.T) {
	store, dir := newStore(t), t.TempDir()
	taken := dir + "/taken"
	old, lock, err := Submit(t.Context(), store, alone("old", taken).Runs[0])
	if err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	waits := alone("first", "")
	waits.After = []Dependency{{Run: old.ID, Name: "old", On: spec.AfterEnd}}
	for name, c := range map[string]struct {
		jobs []Job
		want core.Kind
		good bool
	}{
		"side by side":                  {jobs: []Job{alone("a", dir), alone("b", dir)}, want: core.Invalid},
		"one within the other":          {jobs: []Job{alone("a", dir), alone("b", "", Link{0, "success"}), alone("c", dir+"/out")}, want: core.Invalid},
		"one after the other":           {jobs: []Job{alone("a", dir), alone("b", "", Link{0, "failure"}), alone("c", dir, Link{1, "end"})}, good: true},
		"beside a run":                  {jobs: []Job{alone("a", dir+"/a"), alone("b", taken, Link{0, "success"})}, want: core.Busy},
		"after a job that waits for it": {jobs: []Job{waits, alone("b", taken, Link{0, "success"})}, good: true},
		"a circle":                      {jobs: []Job{alone("a", "", Link{1, "end"}), alone("b", "", Link{0, "end"})}, want: core.Invalid},
	} {
		before := count(t, store)
		_, err := SubmitJobs(t.Context(), store, c.jobs)
		if c.good != (err == nil) || !c.good && !core.IsKind(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if made := count(t, store) - before; c.good && made != len(c.jobs) || !c.good && made != 0 {
			t.Errorf("%s: %d of %d jobs are on record", name, made, len(c.jobs))
		}
		end(t, store, "old")
	}
}

func count(t *testing.T, store *state.Store) int {
	t.Helper()
	runs, err := store.Runs(t.Context(), state.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return len(runs)
}

// end ends all runs but those of a name, so that their places are free.
func end(t *testing.T, store *state.Store, but string) {
	t.Helper()
	runs, err := store.Runs(t.Context(), state.Filter{Active: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if run.Name == but {
			continue
		}
		if run.State = state.Succeeded; store.PutRun(t.Context(), run) != nil {
			t.Fatal("it is not recorded")
		}
	}
}
