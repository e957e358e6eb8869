package runcmd

import (
	"encoding/json"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestTheRunOfARequeuedJob: it is that of the same allocation and job description, as long
// as it is not over.
func TestTheRunOfARequeuedJob(t *testing.T) {
	sub := func(allocation, value string) submission.Submission {
		return submission.Submission{
			Version: 1, Job: spec.Job{Name: "pi", Nodes: 1, Env: map[string]string{"T": value}},
			Sites: []spec.Site{{Name: "laptop", Provider: "local"}, {Name: "allocation", Provider: "slurm", Slurm: &spec.Slurm{Job: allocation}}},
		}
	}
	record := func(id string, st state.RunState, s submission.Submission) state.Run {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return state.Run{ID: id, Name: "pi", State: st, Submission: raw}
	}
	elsewhere := sub("7", "1")
	elsewhere.Sites = elsewhere.Sites[:1]
	store := runrecords.Open(t, t.TempDir(),
		record("aaaa1111", state.Succeeded, sub("7", "1")), record("bbbb2222", state.Suspended, sub("8", "1")),
		record("cccc3333", state.Suspended, sub("7", "2")), record("dddd4444", state.Running, sub("7", "1")),
		record("eeee5555", state.Suspended, sub("7", "1")), record("ffff6666", state.Suspended, elsewhere),
		record("abcd7777", state.SetAside, sub("7", "3")), state.Run{ID: "abcd8888", Name: "pi", State: state.Suspended, Submission: []byte(`{"version": 99}`)},
	)
	s := &workspace.Session{Controller: &control.Controller{Runner: control.Runner{Store: store}}}
	for _, c := range []struct{ allocation, value, want string }{
		{"7", "1", "dddd4444"}, {"7", "2", "cccc3333"}, {"8", "1", "bbbb2222"}, {"7", "3", "abcd7777"}, {"7", "4", ""}, {"9", "1", ""},
	} {
		run, found, err := begunBefore(t.Context(), s, sub(c.allocation, c.value), c.allocation)
		if err != nil || found != (c.want != "") || run.ID != c.want {
			t.Errorf("%+v: %q, %v, %v", c, run.ID, found, err)
		}
	}
}

// TestAJobThatSlurmHasRequeued: only inside of a job that was started before.
func TestAJobThatSlurmHasRequeued(t *testing.T) {
	for _, c := range []struct {
		job, count string
		want       bool
	}{{"7", "", false}, {"7", "0", false}, {"7", "1", true}, {"7", "12", true}, {"7", "x", false}, {"", "1", false}} {
		t.Setenv("SLURM_JOB_ID", c.job)
		t.Setenv("SLURM_RESTART_COUNT", c.count)
		if got := requeued(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
