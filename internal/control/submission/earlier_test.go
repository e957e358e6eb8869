package submission

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestJobsThatWereSubmittedBefore are found as they were submitted together, and as they are on record
// once their images are known. What has succeeded is old with its images alone.
func TestJobsThatWereSubmittedBefore(t *testing.T) {
	store := newStore(t)
	job := func(name string, links ...Link) Job {
		j := alone(name, "", links...)
		j.Runs[0].Origin.Beefile = "/study.yaml"
		j.Runs[0].Job.Outputs = []spec.Output{{From: name, To: "/results/" + name}}
		return j
	}
	jobs := func() []Job {
		return []Job{job("mesh"), job("plot", Link{0, "success"}), job("mourn", Link{0, "failure"})}
	}
	var last [][]state.Run
	for range 2 {
		runs, err := SubmitJobs(t.Context(), store, jobs())
		if err != nil {
			t.Fatal(err)
		}
		last = runs
		for i, end := range []state.RunState{state.Succeeded, state.Succeeded, state.Failed} {
			run := runs[i][0]
			sub, err := Of(run)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sub.Job.OutputsIn("/work"); err != nil {
				t.Fatal(err)
			}
			if run.Submission, err = sub.Encode(); err != nil {
				t.Fatal(err)
			}
			run.State, run.Ended = end, time.Now()
			if end == state.Succeeded {
				run.Image = "sha256:1"
			}
			if err := store.PutRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
	}
	find := func(beefile string) []Submitted {
		t.Helper()
		all, err := Earlier(t.Context(), store, beefile, func(s *Submission) bool { return s.Origin.Beefile == beefile })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := find("/study.yaml")
	if len(all) != 2 || len(all[1].Runs) != 3 || all[1].Runs[0].ID != last[0][0].ID {
		t.Fatalf("got %+v", all)
	}
	if got := find("/other.yaml"); len(got) > 0 {
		t.Errorf("of another file: %+v", got)
	}
	changed := jobs()
	changed[1].Runs[0].Job.Env = map[string]string{"A": "b"}
	for name, c := range map[string]struct {
		jobs []Job
		same bool
	}{"as they were": {jobs(), true}, "one of them is another one": {changed, false}, "one less": {jobs()[:2], false}, "one more": {append(jobs(), job("more")), false}} {
		if got := all[1].Of(c.jobs); got != c.same {
			t.Errorf("%s: %v", name, got)
		}
	}
	for image, want := range map[string]bool{"sha256:1": true, "sha256:2": false} {
		images := map[string]string{"mesh": "sha256:1", "plot": image, "mourn": "sha256:3"}
		if is, err := all[1].Had(t.Context(), store, images); err != nil || is != want {
			t.Errorf("with image %s: %v, %v", image, is, err)
		}
	}
	if is, err := all[1].Succeeded(t.Context(), store); err != nil || !is {
		t.Errorf("not all of them have succeeded: %v", err)
	}
	if run, is := all[1].Live(); is {
		t.Errorf("not over: %+v", run)
	}
}
