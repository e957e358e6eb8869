package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestStopTellsWhatItWaitsFor: a run that does not end at once, as its site is
// slow to answer, ends only after the user was notified.
func TestStopTellsWhatItWaitsFor(t *testing.T) {
	for what, c := range map[string]struct {
		state   state.RunState
		attempt state.Attempt
	}{
		"told to end on site rack":               {state.Running, state.Attempt{}},
		"what it has left on site rack is being": {state.Running, state.Attempt{State: state.Releasing, Result: state.Exited}},
		"left on its sites is being removed":     {state.Suspended, state.Attempt{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c.attempt.Run, c.attempt.N, c.attempt.Site, c.attempt.Started = "aaaa1111", 1, "rack", time.Now()
			stopPrints(t, c.state, c.attempt, what)
		})
	}
}

func stopPrints(t *testing.T, st state.RunState, attempt state.Attempt, what string) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: st})
	if err := d.store.PutAttempt(t.Context(), attempt, false); err != nil {
		t.Fatal(err)
	}
	controller, err := d.store.Locks().Acquire("aaaa1111")
	if err != nil {
		t.Fatal(err)
	}
	defer controller.Unlock()
	reported := make(chan os.Signal, 1) // this process is the controller, and obeys no TERM
	signal.Notify(reported, syscall.SIGTERM)
	defer signal.Stop(reported)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	printed, stderr := io.Pipe()
	defer stderr.Close()
	go func() {
		for lines := bufio.NewScanner(printed); lines.Scan(); {
			if strings.Contains(lines.Text(), what) {
				d.store.PutRun(ctx, state.Run{ID: "aaaa1111", Name: "pi", State: state.Stopped, StopAsked: true, Submission: []byte("{}")}) //nolint:errcheck // the test waits without success then
			}
		}
	}()
	root := newApp(io.Discard, stderr).newRoot()
	root.SetArgs([]string{"--state-dir", filepath.Join(d.dir, "s"), "--cache", filepath.Join(d.dir, "c"), "stop", "pi"})
	if err := root.ExecuteContext(ctx); err != nil {
		t.Error(err)
	}
}

// TestSuperviseFindsNewSites, and continues a suspended run that waits for one.
func TestSuperviseFindsNewSites(t *testing.T) {
	sites := filepath.Join(t.TempDir(), "sites.yaml")
	d := newDesk(t, state.Run{
		ID: "aaaa1111", Name: "pi", State: state.Suspended, Suspended: state.ReasonNoSite, Message: "no site",
		Submission: []byte(`{"version": 1, "sites": [{"Name": "a", "Provider": "local"}], "sites_file": "` + sites + `"}`),
	})
	for _, c := range []struct {
		text  string
		state state.RunState
		ids   string
	}{
		{"sites:\n  - {name: a, provider: local}\n", state.Suspended, ""},
		{"sites:\n  - {name: a, provider: local}\n  - {name: b, provider: local}\n", state.Queued, "aaaa1111\n"},
	} {
		if err := os.WriteFile(sites, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.bee("ps", "--format", "{{.id}} {{.state}}"); err != nil || d.out.String() != "aaaa1111 suspended\n" {
			t.Errorf("bee ps: %v: %s%s", err, &d.out, &d.err)
		}
		if err := d.bee("supervise"); err != nil || d.out.String() != c.ids {
			t.Errorf("bee supervise printed %q: %v", &d.out, err)
		}
		if run, err := d.store.Run(t.Context(), "aaaa1111"); err != nil || run.State != c.state {
			t.Errorf("the run is %s, want %s: %v", run.State, c.state, err)
		}
	}
}

// TestResumeSaysWhereARunStands, whichever process has it.
func TestResumeSaysWhereARunStands(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running})
	controller, err := d.store.Locks().Acquire("aaaa1111")
	if err != nil {
		t.Fatal(err)
	}
	defer controller.Unlock()
	root := newApp(io.Discard, io.Discard).newRoot()
	root.SetArgs([]string{"--state-dir", filepath.Join(d.dir, "s"), "--cache", filepath.Join(d.dir, "c"), "resume", "pi"})
	if err := root.ExecuteContext(t.Context()); err == nil || core.Remedy(err) == "" {
		t.Errorf("got %v, remedy %q", err, core.Remedy(err))
	}
}

// TestResumeInAnAllocation: a run whose allocation is over continues in that in which it is
// resumed, and outside of any on what its sites file has, also where another process has
// the run and continues it.
func TestResumeInAnAllocation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sites.yaml")
	if err := os.WriteFile(file, []byte("sites:\n  - {name: rack, provider: local}\n  - {name: cluster, provider: slurm}\n  - {name: other, provider: slurm}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for allocation, want := range map[string]string{"8": "cluster 8, rack", "": "rack, cluster"} {
		t.Run("allocation "+allocation, func(t *testing.T) {
			t.Setenv("SLURM_JOB_ID", allocation)
			raw, err := json.Marshal(submission.Submission{
				Version: 1,
				Job:     spec.Job{Sites: []string{"rack", "cluster"}}, SitesFile: file,
				Sites: []spec.Site{{Name: "rack", Provider: "local"}, {Name: "cluster", Provider: "slurm", Slurm: &spec.Slurm{Job: "7"}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Suspended, Submission: raw})
			other, err := d.store.Locks().Acquire("aaaa1111")
			if err != nil {
				t.Fatal(err)
			}
			defer other.Unlock()
			resumed := make(chan error, 1)
			go func() { resumed <- d.bee("--sites", file, "resume", "pi") }()
			testkit.Eventually(t, time.Minute, func() error {
				r, err := d.store.Requests().Open(t.Context(), "aaaa1111", state.RequestResume)
				if err == nil && r == nil {
					err = errors.New("nothing is asked")
				}
				return err
			})
			run, err := d.store.Run(t.Context(), "aaaa1111")
			if err == nil {
				run, err = (&control.Controller{Runner: control.Runner{Store: d.store}}).ApplyResume(t.Context(), run)
			}
			if err := errors.Join(err, <-resumed); err != nil {
				t.Fatal(err)
			}
			sub, err := submission.Of(run)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range sub.Sites {
				word := s.Name
				if s.Granted() {
					word += " " + s.Slurm.Job
				}
				got = append(got, word)
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("it continues on %q, not on %q", got, want)
			}
		})
	}
}
