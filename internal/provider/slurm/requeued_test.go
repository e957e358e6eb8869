package slurm

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// TestAStepOfAnEarlierStart: Slurm requeues a job of the user's before the agents of bee's
// step have written down what was granted. The next start has another step of that number.
func TestAStepOfAnEarlierStart(t *testing.T) {
	f := slurmfarm.Start(t, 1)
	script := filepath.Join(t.TempDir(), "job.sh")
	if err := core.WriteProgram(script, []byte("#!/bin/sh\n[ \"${SLURM_RESTART_COUNT:-0}\" = 0 ] || exec srun --mpi=none sleep 600\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := f.Do("sbatch", "--requeue", "--parsable", "--output=/dev/null", script)
	if err != nil {
		t.Fatal(out, err)
	}
	id := strings.TrimSpace(out)
	// steps are those in the job, without that of its script.
	steps := func() string {
		out, err := f.Do("squeue", "--noheader", "--steps", "--format=%i")
		if err != nil {
			t.Error(err)
		}
		return strings.Join(slices.DeleteFunc(strings.Fields(out), func(step string) bool { return !strings.HasSuffix(step, ".0") }), " ")
	}
	hasStep := func() {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			if got := steps(); got != id+".0" {
				return errors.New(got)
			}
			return nil
		})
	}
	becomes := func(want string, argv ...string) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			out, err := f.Do(append([]string{"squeue", "--noheader"}, argv...)...)
			if err == nil && strings.Join(strings.Fields(out), " ") != want {
				err = errors.New(out)
			}
			return err
		})
	}
	becomes("RUNNING", "--format=%T")
	l, err := site(t, f, Settings{Job: id, HostArgv: []string{"/bin/sh", "-c", "exec sleep 600"}}).Acquire(t.Context(), want("requeued"))
	if err != nil {
		t.Fatal(err)
	}
	hasStep()
	if w, err := l.Queue().Ready(t.Context()); err != nil || w.Ready {
		t.Errorf("while its step starts: %+v, %v", w, err)
	}
	// An agent leaves this as soon as it has begun.
	found, err := filepath.Glob(filepath.Join(f.Dir, "scratch", "bee", leasesDir, "*", hostsDir))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if err := writeJSON(filepath.Join(found[0], "0.json"), announcement{Job: id, Step: "0"}); err != nil {
		t.Fatal(err)
	}
	scontrol(t, f, "requeue", id)
	becomes("PENDING,BeginTime", "--format=%T,%r")
	// Slurm would let it rest for two minutes. A node refuses a start in the second of the end.
	scontrol(t, f, "update", "jobid="+id, "starttime=now+3")
	becomes("1", "--states=RUNNING", "--Format=RestartCnt")
	hasStep()
	if w, err := l.Queue().Ready(t.Context()); !core.IsKind(err, core.Lost) {
		t.Errorf("after its end: %+v, %v", w, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if got := steps(); got != id+".0" {
		t.Errorf("the user's own step has ended: %q", got)
	}
	f.Do("scancel", id) //nolint:errcheck // the cluster goes too
}

func TestRestartsInWhatSqueuePrints(t *testing.T) {
	for name, c := range map[string]struct {
		out, id, count string
		found          bool
	}{
		"none":                  {"", "5", "", false},
		"the job":               {"5                   2                   \n", "5", "2", true},
		"an element of many":    {"4 0\n5 1\n", "5", "1", true},
		"one, by its name":      {"5 1\n", "4_2", "1", true},
		"of many, by its name":  {"4 0\n5 1\n", "4_2", "", true},
		"what nobody expects":   {"error", "5", "", false},
		"more than two numbers": {"5 1 1\n", "5", "", false},
	} {
		if count, found := restartsIn(c.out, c.id); count != c.count || found != c.found {
			t.Errorf("%s: %q, %v", name, count, found)
		}
	}
}
