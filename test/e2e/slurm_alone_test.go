package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// slurm runs one of Slurm's commands on the login node.
func slurm(t *testing.T, farm *slurmfarm.Farm, argv ...string) string {
	t.Helper()
	out, err := farm.Do(argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func drain(t *testing.T, farm *slurmfarm.Farm) {
	t.Helper()
	slurm(t, farm, "scontrol", "update", "nodename=ALL", "state=drain", "reason=tests")
}

func undrain(t *testing.T, farm *slurmfarm.Farm) {
	t.Helper()
	slurm(t, farm, "scontrol", "update", "nodename=ALL", "state=resume")
}

// killControllers takes the submitting machine away.
func killControllers(t *testing.T, b *testkit.Bee) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, func() error {
		list := b.Controllers()
		for _, pid := range list {
			testkit.Kill(pid)
		}
		if len(list) > 0 {
			return errors.New("controllers are left")
		}
		return nil
	})
}

// leftAlone waits until the cluster's queue is empty, with no controller there.
func leftAlone(t *testing.T, b *testkit.Bee, farm *slurmfarm.Farm) {
	t.Helper()
	leftAloneWithin(t, b, farm, 2*time.Minute)
}

func leftAloneWithin(t *testing.T, b *testkit.Bee, farm *slurmfarm.Farm, within time.Duration) {
	t.Helper()
	testkit.Eventually(t, within, func() error {
		if list := b.Controllers(); len(list) > 0 {
			t.Fatalf("there is a controller: %v", list)
		}
		if out := slurm(t, farm, "squeue", "--noheader"); strings.TrimSpace(out) != "" {
			return errors.New("in the queue: " + out)
		}
		return nil
	})
}

const waitsForNobody = "starts it by itself: this machine may be switched off"

// TestASlurmJobNeedsNobody: from the moment at which all that it needs is
// there, which the user reads, until its results are fetched.
func TestASlurmJobNeedsNobody(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, ", slot: 10m", "nodes: 2", "volume: /data", "inputs: [{from: ./in, to: /data}]",
		"setup: 'tr a-z A-Z </data/a.txt >/data/b.txt'", strings.ReplaceAll(overAllNodes, "/work", "/data"),
		"outputs: [{from: '/data/rank-*', to: ./results}, {from: /data/b.txt, to: ./results}]")
	b.File("in/a.txt", "data\n")
	drain(t, farm)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	printed(t, b, id, event.KindAutostart, "")
	killControllers(t, b)
	leases, _ := filepath.Glob(filepath.Join(farm.Dir, "scratch", "bee", ".slurm", "*", "*.json"))
	for _, file := range leases {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	undrain(t, farm)
	leftAlone(t, b, farm)
	if r := b.Try("ps"); !strings.Contains(r.Stdout, id) || !strings.Contains(r.Stderr, "bee supervise") {
		t.Errorf("bee ps: %+v", r)
	}
	leftAlone(t, b, farm) // by a command that reads, too
	b.Must("supervise")
	v := b.Await(id, time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 1 || fmt.Sprint(v.Attempts[0].Hosts) != "[h1 h2]" || v.Attempts[0].Phases["setup"] == 0 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if out := b.Must("logs", id); out != "h1\nDATA\nh2\nDATA\n" {
		t.Errorf("its output was %q", out)
	}
	for file, want := range map[string]string{"rank-0": "0\n", "rank-1": "1\n", "b.txt": "DATA\n"} {
		if got := b.Read("results/" + file); got != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	printed(t, b, id, event.KindRanUnattended, "")
}

// TestASlurmSlotEndsWithNobodyThere: the head alone has the job write its checkpoint;
// the run continues elsewhere once there is a controller again.
func TestASlurmSlotEndsWithNobodyThere(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, ", slot: 30s}\n  - {name: laptop, provider: local", "volume: /data", "workdir: /data", "checkpoint: {grace: 3s}",
		"setup: echo once >> log", "outputs: [{from: /data/*, to: results}]", "run: "+strings.ReplaceAll(counter, "60", "160"))
	drain(t, farm)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	printed(t, b, id, event.KindAutostart, "")
	killControllers(t, b)
	undrain(t, farm)
	leftAlone(t, b, farm)
	b.Must("supervise")
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Site != "cluster" || v.Attempts[1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	log := strings.Split(strings.TrimSpace(b.Read("results/log")), "\n")
	if len(log) != 3 || log[0] != "once" || log[1] != "from 0" || log[2] == "from 0" || b.Read("results/done") != "160\n" {
		t.Errorf("attempts began %q", log)
	}
}

// TestControllersThatDieAroundStaging: whatever they had done, the job runs
// once, and in the end with no controller there.
func TestControllersThatDieAroundStaging(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, "", "volume: /data", "inputs: [{from: ./in, to: /data}]", "run: 'cat /data/part-* | wc -c; echo x >>/data/times'",
		"outputs: [{from: /data/times, to: results}]")
	for i := range 40 {
		b.File(fmt.Sprintf("in/part-%d", i), strings.Repeat("0123456789", 10_000))
	}
	drain(t, farm)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	for range 6 {
		time.Sleep(time.Duration(rand.IntN(1200)) * time.Millisecond) // the moment is left to chance
		killControllers(t, b)
		b.Must("supervise") // starts another
	}
	printed(t, b, id, event.KindAutostart, "")
	killControllers(t, b)
	undrain(t, farm)
	leftAlone(t, b, farm)
	b.Must("supervise")
	if v := b.Await(id, time.Minute); v.State != "succeeded" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if out, times := b.Must("logs", id), b.Read("results/times"); out != "4000000\n" || times != "x\n" {
		t.Errorf("it said %q, and ran %q", out, times)
	}
}

// TestASlurmJobThatStartsTooEarly: what its controller had not brought yet is
// waited for, and nothing is started before.
func TestASlurmJobThatStartsTooEarly(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, "", "run: hostname")
	drain(t, farm)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	printed(t, b, id, event.KindAutostart, "")
	killControllers(t, b)
	specs, err := filepath.Glob(filepath.Join(farm.Dir, "scratch", "bee", ".slurm", "*", "orders.json"))
	if err != nil || len(specs) != 1 {
		t.Fatal(specs, err)
	}
	// As if it had died just before it put them in force.
	if err := os.Rename(specs[0], strings.TrimSuffix(specs[0], "json")+"new"); err != nil {
		t.Fatal(err)
	}
	undrain(t, farm)
	granted := filepath.Join(filepath.Dir(specs[0]), "granted.json")
	testkit.Eventually(t, time.Minute, func() error { _, err := os.Stat(granted); return err })
	time.Sleep(2 * time.Second) // in which nothing may start
	if _, err := os.Stat(filepath.Join(filepath.Dir(specs[0]), "started")); err == nil {
		t.Error("nodes were started without an enabled launch spec")
	}
	b.Must("supervise")
	if v := b.Await(id, time.Minute); v.State != "succeeded" || len(v.Attempts) != 1 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
}

// TestARequeuedSlurmJobIsNotStartedAgain: not by itself; the run continues in an
// attempt of its own.
func TestARequeuedSlurmJobIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, ", slot: 10m}\n  - {name: laptop, provider: local", "volume: /data", "workdir: /data", "checkpoint: {grace: 3s, every: 1s, paths: [/data/state]}",
		"outputs: [{from: /data/*, to: results}]", "run: "+strings.Replace(steadyCounter, "80", "160", 1))
	drain(t, farm)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	printed(t, b, id, event.KindAutostart, "")
	killControllers(t, b)
	undrain(t, farm)
	state := filepath.Join(farm.Dir, "scratch", "bee", id, "snapshots", "1", "state")
	testkit.Eventually(t, time.Minute, func() error { _, err := os.Stat(state); return err })
	number := strings.TrimSpace(slurm(t, farm, "squeue", "--noheader", "--format=%i"))
	slurm(t, farm, "scontrol", "update", "jobid="+number, "requeue=1")
	slurm(t, farm, "scontrol", "requeue", number)
	testkit.Eventually(t, time.Minute, func() error { // Slurm would let it rest for two minutes
		out := strings.TrimSpace(slurm(t, farm, "squeue", "--noheader", "--format=%T_%r"))
		if out == "PENDING_BeginTime" {
			slurm(t, farm, "scontrol", "update", "jobid="+number, "starttime=now")
			return nil
		}
		return errors.New("it is " + out)
	})
	leftAlone(t, b, farm)
	b.Must("supervise")
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); strings.Count(log, "from ") != 2 || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "160\n" {
		t.Errorf("attempts began %q", log)
	}
}

// TestASlurmJobWithSecretsThatNobodyIsThereFor is released soon, and asked for again by
// `bee supervise`, once it can read them.
func TestASlurmJobWithSecretsThatNobodyIsThereFor(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, "", "secrets: {TOKEN: {env: BEE_TEST_TOKEN}}", "run: 'echo $TOKEN | tr a-z A-Z'")
	without := b.Env
	b.Env = append(slices.Clone(b.Env), "BEE_TEST_TOKEN=hush")
	const depends = "`secrets:`"
	if out := b.Must("plan", job); !strings.Contains(out, depends) {
		t.Errorf("the plan: %s", out)
	}
	drain(t, farm)
	r := b.Try("run", "-d", job)
	if r.Code != 0 || !strings.Contains(r.Stderr, depends) {
		t.Fatalf("run -d: %+v", r)
	}
	id := strings.TrimSpace(r.Stdout)
	printed(t, b, id, event.KindAttendance, "")
	killControllers(t, b)
	undrain(t, farm)
	begun := time.Now()
	leftAloneWithin(t, b, farm, 4*time.Minute)
	t.Logf("its nodes were given back %s after they could be had", time.Since(begun).Round(time.Second))
	with := b.Env
	b.Env = without
	b.Must("supervise")
	printed(t, b, id, event.KindSecretsUnreadable, "read secret TOKEN: variable BEE_TEST_TOKEN is not set")
	b.Env = with
	b.Must("supervise")
	if v := b.Await(id, time.Minute); v.State != "succeeded" || len(v.Attempts) != 2 || !strings.Contains(b.Must("show", id), " 2m0s ") {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if out := b.Must("logs", id); out != "HUSH\n" {
		t.Errorf("its output was %q", out)
	}
}

// TestASuspendedSlurmJobWithNobodyThere, on which its slot ends by the clock meanwhile, saves
// itself once it continues, long before Slurm ends it.
func TestASuspendedSlurmJobWithNobodyThere(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, ", slot: 1m}\n  - {name: laptop, provider: local", "workdir: /work", "checkpoint: {grace: 10s}",
		"outputs: [{from: /work/*, to: results}]", "run: "+strings.ReplaceAll(counter, "60", "200"))
	id := strings.TrimSpace(b.Must("run", "-d", job))
	begun(t, b, id)
	number := jobOf(t, farm, id)
	killControllers(t, b)
	slurm(t, farm, "scontrol", "suspend", number)
	time.Sleep(70 * time.Second) // beyond the end of its slot
	if out := slurm(t, farm, "squeue", "--noheader", "--format=%T"); strings.TrimSpace(out) != "SUSPENDED" {
		t.Fatal("the job is " + out)
	}
	slurm(t, farm, "scontrol", "resume", number)
	went := time.Now()
	leftAlone(t, b, farm)
	t.Logf("it had saved itself and ended %s after it went on", time.Since(went).Round(time.Second))
	b.Must("supervise")
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); strings.Count(log, "from ") != 2 || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "200\n" {
		t.Errorf("attempts began %q", log)
	}
}
