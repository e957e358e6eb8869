package runcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
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
		begun, err := begunBefore(t.Context(), s, []submission.Submission{sub(c.allocation, c.value)}, c.allocation)
		if err != nil || len(begun) > 0 != (c.want != "") || len(begun) > 0 && begun[0].ID != c.want {
			t.Errorf("%+v: %+v, %v", c, begun, err)
		}
	}
	jobs := []submission.Submission{sub("7", "4"), sub("7", "2"), sub("7", "1")}
	for count, want := range map[string]string{"": "", "1": "`bee wait cccc3333 dddd4444 eeee5555`"} {
		t.Setenv("SLURM_JOB_ID", "7")
		t.Setenv("SLURM_RESTART_COUNT", count)
		err := refuseRequeued(t.Context(), s, "jobs.yaml", jobs)
		if core.IsKind(err, core.Busy) != (want != "") || !strings.Contains(core.Remedy(err), want) {
			t.Errorf("started %q times again: %v", count, err)
		}
		if err := refuseRequeued(t.Context(), s, "jobs.yaml", jobs[:1]); err != nil {
			t.Errorf("jobs that had not begun: %v", err)
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
