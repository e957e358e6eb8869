package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// inside is how a user works inside of allocations of a cluster: with bee on the login
// node or in a batch job, and no sites file.
type inside struct {
	t    *testing.T
	b    *testkit.Bee
	farm *slurmfarm.Farm
	env  []string
}

func insideOf(t *testing.T, lines ...string) (inside, string) {
	b, farm, job := cluster(t, 1, "", lines...)
	return inside{t, b, farm, beeThere(t, b)}, job
}

// batch submits a script of bee commands with options of sbatch, and gives the job's number.
func (i inside) batch(options []string, commands ...string) string {
	i.t.Helper()
	script := "#!/bin/sh\ncd " + i.b.Work + "\n"
	for _, c := range commands {
		script += "'" + strings.Join(i.env, "' '") + "' " + c + "\n"
	}
	path := i.b.File("batch.sh", script)
	return strings.TrimSpace(slurm(i.t, i.farm, append(append([]string{"sbatch", "--parsable", "--exclusive", "--nodes=1", "--output=" + filepath.Join(i.b.Work, "batch.log")}, options...), path)...))
}

// bee runs a command of bee's on the login node.
func (i inside) bee(args ...string) string {
	i.t.Helper()
	return slurm(i.t, i.farm, append(append([]string{}, i.env...), args...)...)
}

// only waits for the run that the batch job has begun, and for its command to count.
func (i inside) only() string {
	i.t.Helper()
	var id string
	testkit.Eventually(i.t, time.Minute, func() error {
		if id = strings.TrimSpace(i.bee("ps", "-aq")); id == "" {
			return errors.New("there is no run")
		}
		out, err := i.farm.Do(append(append([]string{}, i.env...), "exec", id, "--", "test", "-e", "/work/log")...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	return id
}

// becomes waits for a state of a run's, and fails where it ends with another.
func (i inside) becomes(id, want string) {
	i.t.Helper()
	testkit.Eventually(i.t, time.Minute, func() error {
		var v struct{ State string }
		if err := json.Unmarshal([]byte(i.bee("show", "--json", id)), &v); err != nil || v.State == want {
			return err
		}
		if v.State != "running" && v.State != "queued" && v.State != "suspended" {
			i.t.Fatalf("it is %s, not %s:\n%s", v.State, want, i.bee("show", id))
		}
		return errors.New("it is " + v.State)
	})
}

// suspended waits until the run is, after one attempt.
func (i inside) suspended(id string) {
	i.t.Helper()
	i.becomes(id, "suspended")
	if out := i.bee("show", id); strings.Contains(out, "attempt 2") {
		i.t.Errorf("it was tried again:\n%s", out)
	}
}

// cancel has Slurm end a job, and waits for that.
func (i inside) cancel(number string) {
	i.t.Helper()
	slurm(i.t, i.farm, "scancel", number)
	testkit.Eventually(i.t, time.Minute, func() error {
		if out := slurm(i.t, i.farm, "squeue", "--noheader"); strings.TrimSpace(out) != "" {
			return errors.New(out)
		}
		return nil
	})
}

// goesOn has the run continue in an allocation of its own, to its end.
func (i inside) goesOn(id string) {
	i.t.Helper()
	number := i.batch(nil, "resume "+id, "logs --follow "+id)
	testkit.Eventually(i.t, 20*time.Second, func() error { // by no other command of bee's
		raw, err := os.ReadFile(filepath.Join(i.b.Work, "batch.log"))
		if err == nil && !strings.Contains(string(raw), "`bee logs -f "+id+"`") {
			err = errors.New(string(raw))
		}
		return err
	})
	i.becomes(id, "succeeded")
	if log := i.b.Read("results/log"); strings.Count(log, "from ") != 2 || strings.HasSuffix(log, "from 0\n") || i.b.Read("results/done") != "60\n" {
		i.t.Errorf("attempts began %q", log)
	}
	slurm(i.t, i.farm, "scancel", number) // it may not have seen that yet
}

// TestAnAllocationThatIsPreempted is left alone once the run has written its checkpoint: what is left
// of its time is too short for another attempt. The run continues in the next allocation.
func TestAnAllocationThatIsPreempted(t *testing.T) {
	t.Parallel()
	i, job := insideOf(t, "workdir: /work", "checkpoint: {grace: 20s}", "outputs: [{from: /work/*, to: results}]", countingJob)
	number := i.batch([]string{"--partition=low", "--time=10"}, "run -q "+job)
	id := i.only()
	slurm(t, i.farm, "srun", "--partition=high", "--exclusive", "--mpi=none", "true")
	i.suspended(id)
	if out := i.bee("show", id); !strings.Contains(out, "Slurm job "+number+" ") {
		t.Errorf("why it is suspended is not told:\n%s", out)
	}
	i.goesOn(id)
}

// TestAnAllocationThatIsCancelled: Slurm's TERM to bee itself is no word of the user's that
// the run shall stop. Where bee is killed, the run is on record as running, and `bee resume`
// finds out what has become of it.
func TestAnAllocationThatIsCancelled(t *testing.T) {
	for name, killed := range map[string]bool{"with bee in it": false, "with bee killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, job := insideOf(t, "workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]", countingJob)
			number := i.batch([]string{"--time=10"}, "run -q "+job)
			id := i.only()
			if killed {
				slurm(t, i.farm, "pkill", "-KILL", "-f", "'bee run -q "+filepath.Dir(job)+"/[j]ob.yaml'")
			}
			i.cancel(number)
			if !killed {
				i.suspended(id)
			}
			i.goesOn(id)
		})
	}
}

// requeuedCounter is steadyCounter whose first attempt does not end, so that Slurm can requeue its job
// at any time after the first checkpoint.
var requeuedCounter = strings.NewReplacer(`echo "from`, `first=$n; echo "from`, "sleep 0.25\n", "sleep 0.25\n    [ $first = 0 ] && [ $n = 79 ] && n=78\n").Replace(steadyCounter)

// requeue has Slurm start a job again, and waits until that has ended.
func (i inside) requeue(number string) {
	i.t.Helper()
	slurm(i.t, i.farm, "scontrol", "requeue", number)
	testkit.Eventually(i.t, 2*time.Minute, func() error { // Slurm would let it rest for two minutes
		out := strings.TrimSpace(slurm(i.t, i.farm, "squeue", "--noheader", "--format=%T_%r"))
		if out == "PENDING_BeginTime" {
			slurm(i.t, i.farm, "scontrol", "update", "jobid="+number, "starttime=now")
			return nil
		}
		return errors.New("it is " + out)
	})
	testkit.Eventually(i.t, 2*time.Minute, func() error {
		if out := slurm(i.t, i.farm, "squeue", "--noheader"); strings.TrimSpace(out) != "" {
			return errors.New(out)
		}
		return nil
	})
}

// TestAnAllocationThatIsRequeued: the batch script begins again, and its `bee run` continues
// the run that it had begun.
func TestAnAllocationThatIsRequeued(t *testing.T) {
	t.Parallel()
	i, job := insideOf(t, "workdir: /work", "checkpoint: {grace: 3s, every: 1s, paths: [/work/state]}", "outputs: [{from: /work/*, to: results}]", "run: "+requeuedCounter)
	number := i.batch([]string{"--requeue", "--open-mode=append", "--time=10"}, "run -q "+job)
	id := i.only()
	testkit.Eventually(t, time.Minute, func() error {
		var v struct{ Checkpoints []struct{ Files int } }
		if err := json.Unmarshal([]byte(i.bee("show", "--json", id)), &v); err != nil || len(v.Checkpoints) > 0 {
			return err
		}
		return errors.New("there is no checkpoint")
	})
	i.requeue(number)
	if all := strings.TrimSpace(i.bee("ps", "-aq")); all != id {
		t.Errorf("runs %q, want %q\n%s", all, id, i.b.Read("batch.log"))
	}
	i.becomes(id, "succeeded")
	if log := i.b.Read("results/log"); strings.Count(log, "from ") != 2 || strings.HasSuffix(log, "from 0\n") || i.b.Read("results/done") != "80\n" {
		t.Errorf("attempts began %q\n%s", log, i.bee("show", id))
	}
}

// TestJobsOfAnAllocationThatIsRequeued: the batch script begins again, and its `bee run` continues the
// jobs that it had submitted. One that is over is not submitted again.
func TestJobsOfAnAllocationThatIsRequeued(t *testing.T) {
	t.Parallel()
	i, job := insideOf(t, "run: echo once")
	second := i.b.File("jobs.yaml", strings.ReplaceAll(i.b.Read("job.yaml"), "name: small", "name: first")+"---\n"+
		strings.ReplaceAll(strings.ReplaceAll(i.b.Read("job.yaml"), "name: small", "name: last"), "run: echo once",
			"after: [first]\nworkdir: /work\ncheckpoint: {grace: 3s, every: 1s, paths: [/work/state]}\noutputs: [{from: /work/*, to: results}]\nrun: "+requeuedCounter))
	number := i.batch([]string{"--requeue", "--open-mode=append", "--time=10"}, "run -q "+job, "run -q "+second)
	testkit.Eventually(t, time.Minute, func() error {
		var v struct{ Checkpoints []struct{ Files int } }
		out, err := i.farm.Do(append(append([]string{}, i.env...), "show", "--json", "last")...)
		if err == nil {
			err = json.Unmarshal([]byte(out), &v)
		}
		if err != nil || len(v.Checkpoints) > 0 {
			return err
		}
		return errors.New("there is no checkpoint")
	})
	before := strings.Fields(i.bee("ps", "-aq"))
	i.requeue(number)
	if all := strings.Fields(i.bee("ps", "-aq")); len(all) != 3 || !slices.Equal(all, before) {
		t.Errorf("runs %q, and they were %q\n%s", all, before, i.b.Read("batch.log"))
	}
	i.becomes("last", "succeeded")
	if log := i.b.Read("results/log"); strings.Count(log, "from ") != 2 || strings.HasSuffix(log, "from 0\n") || i.b.Read("results/done") != "80\n" {
		t.Errorf("attempts began %q\n%s", log, i.bee("show", "last"))
	}
}

// TestAllocationsOfOtherKinds: an element of a job array and a heterogeneous job have
// numbers that Slurm writes in another way than it reports them.
func TestAllocationsOfOtherKinds(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, "", "run: echo task $T")
	i := inside{t, b, farm, beeThere(t, b)}
	log := filepath.Join(i.b.Work, "kind-%a.log")
	for _, c := range []struct{ options, logs []string }{
		{[]string{"--array=1-2", "--output=" + log}, []string{"kind-1.log", "kind-2.log"}},
		{[]string{"--nodes=1", "--output=" + filepath.Join(i.b.Work, "het.log"), ":", "--nodes=1"}, []string{"het.log"}},
	} {
		path := i.b.File("kind.sh", "#!/bin/sh\ncd "+i.b.Work+"\nexec '"+strings.Join(i.env, "' '")+"' run -q -e T=$SLURM_ARRAY_TASK_ID "+job+"\n")
		slurm(t, i.farm, append(append([]string{"sbatch"}, c.options...), path)...)
		testkit.Eventually(t, 2*time.Minute, func() error {
			if out := slurm(t, i.farm, "squeue", "--noheader"); strings.TrimSpace(out) != "" {
				return errors.New(out)
			}
			return nil
		})
		for n, name := range c.logs {
			want := "task\n"
			if len(c.logs) > 1 {
				want = fmt.Sprintf("task %d\n", n+1)
			}
			if got := i.b.Read(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}
