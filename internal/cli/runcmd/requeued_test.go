package runcmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestTheRunOfARequeuedJob: it is that of the same allocation and job description which was submitted
// before Slurm started the batch job again, also if it is over. Each `bee run` has one of its own.
func TestTheRunOfARequeuedJob(t *testing.T) {
	sub := func(allocation, value string, restart int) submission.Submission {
		return submission.Submission{
			Version: 1, Job: spec.Job{Name: "pi", Nodes: 1, Env: map[string]string{"T": value}}, Restart: restart,
			Sites: []spec.Site{{Name: "laptop", Provider: "local"}, {Name: "allocation", Provider: "slurm", Slurm: &spec.Slurm{Job: allocation}}},
		}
	}
	begun := time.Now()
	record := func(id string, st state.RunState, s submission.Submission) state.Run {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		begun = begun.Add(time.Second)
		return state.Run{ID: id, Name: "pi", State: st, Submission: raw, Created: begun}
	}
	elsewhere := sub("7", "1", 0)
	elsewhere.Sites = elsewhere.Sites[:1]
	store := runrecords.Open(t, t.TempDir(),
		record("aaaa1111", state.Succeeded, sub("7", "1", 0)), record("bbbb2222", state.Suspended, sub("8", "1", 0)),
		record("cccc3333", state.Suspended, sub("7", "2", 1)), record("dddd4444", state.Running, sub("7", "1", 1)),
		record("eeee5555", state.Suspended, sub("7", "1", 2)), record("ffff6666", state.Suspended, elsewhere),
		record("abcd7777", state.SetAside, sub("7", "3", 0)), state.Run{ID: "abcd8888", Name: "pi", State: state.Suspended, Submission: []byte(`{"version": 99, "x": "7"}`)},
	)
	s := &workspace.Session{Controller: &control.Controller{Runner: control.Runner{Store: store}}}
	for _, c := range []struct{ allocation, restart, value, want string }{
		{"7", "2", "1", "aaaa1111"},
		{"7", "2", "1", "dddd4444"},
		{"7", "2", "1", ""},
		{"7", "3", "1", "aaaa1111"},
		{"7", "2", "2", "cccc3333"},
		{"8", "1", "1", "bbbb2222"},
		{"7", "1", "3", "abcd7777"},
		{"7", "1", "4", ""},
		{"9", "1", "1", ""},
		{"7", "", "1", ""},
		{"7", "0", "1", ""},
	} {
		t.Setenv("SLURM_JOB_ID", c.allocation)
		t.Setenv("SLURM_RESTART_COUNT", c.restart)
		for _, fails := range []bool{true, false} { // a command that could not continue it leaves it to the next one
			got, err := begunBefore(t.Context(), s, []submission.Job{{Runs: []submission.Submission{sub(c.allocation, c.value, 0)}}})
			if err != nil || (got != nil) != (c.want != "") || got != nil && got.Runs[0].ID != c.want {
				t.Fatalf("%+v: %+v, %v", c, got, err)
			}
			switch {
			case got == nil:
			case fails:
				got.unlock()
			default:
				if err := got.continued(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestAPartOfWhatARequeuedJobHadSubmitted is not submitted a second time while it is live: the other
// run of the file was removed.
func TestAPartOfWhatARequeuedJobHadSubmitted(t *testing.T) {
	sub := func(name, together string) submission.Submission {
		return submission.Submission{
			Version: 1, Job: spec.Job{Name: name, Nodes: 1}, Together: together,
			Sites: []spec.Site{{Name: "allocation", Provider: "slurm", Slurm: &spec.Slurm{Job: "7"}}},
		}
	}
	raw, err := json.Marshal(sub("mesh", "zzzz1111"))
	if err != nil {
		t.Fatal(err)
	}
	run := state.Run{ID: "aaaa1111", Name: "mesh", State: state.Suspended, Submission: raw}
	store := runrecords.Open(t, t.TempDir(), run)
	s := &workspace.Session{Controller: &control.Controller{Runner: control.Runner{Store: store}}}
	t.Setenv("SLURM_JOB_ID", "7")
	t.Setenv("SLURM_RESTART_COUNT", "1")
	jobs := []submission.Job{{Runs: []submission.Submission{sub("mesh", "")}}, {Runs: []submission.Submission{sub("plot", "")}}}
	if got, err := begunBefore(t.Context(), s, jobs); got != nil || !core.IsKind(err, core.Busy) || !strings.Contains(core.Remedy(err), run.ID) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := begunBefore(t.Context(), s, jobs[1:]); got != nil || err != nil {
		t.Errorf("of other jobs: %+v, %v", got, err)
	}
	alone, err := begunBefore(t.Context(), s, jobs[:1]) // by a command before in the script
	if err == nil {
		err = alone.continued(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := begunBefore(t.Context(), s, jobs); got != nil || err != nil {
		t.Errorf("which another command continues: %+v, %v", got, err)
	}
	run.State = state.Succeeded
	if err := store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_RESTART_COUNT", "2")
	if got, err := begunBefore(t.Context(), s, jobs); got != nil || err != nil {
		t.Errorf("which is over: %+v, %v", got, err)
	}
}

// TestAJobThatSlurmHasRequeued: only inside of a job that was started before.
func TestAJobThatSlurmHasRequeued(t *testing.T) {
	for _, c := range []struct {
		job, count string
		want       int
	}{{"7", "", 0}, {"7", "0", 0}, {"7", "1", 1}, {"7", "12", 12}, {"7", "x", 0}, {"7", "-1", 0}, {"", "1", 0}} {
		t.Setenv("SLURM_JOB_ID", c.job)
		t.Setenv("SLURM_RESTART_COUNT", c.count)
		if got := restarts(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
