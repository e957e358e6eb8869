package e2e

import (
	"errors"
	"fmt"
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

// cluster is a bee whose sites file names a cluster under a real Slurm behind
// its login node. The site's further settings are YAML in flow style.
func cluster(t *testing.T, nodes int, settings string, lines ...string) (*testkit.Bee, *slurmfarm.Farm, string) {
	t.Helper()
	return clusterFor(t, nil, nodes, settings, lines...)
}

// clusterFor is cluster with variables, KEY=VALUE, that every login of the account has.
func clusterFor(t *testing.T, account []string, nodes int, settings string, lines ...string) (*testkit.Bee, *slurmfarm.Farm, string) {
	t.Helper()
	farm := slurmfarm.StartFor(t, account, nodes)
	b, job := busyboxJob(t, lines...)
	b.Env = append(append(b.Env, farm.Farm.Env()...), "BEE_SITES="+b.File("sites.yaml", "sites:\n  - "+clusterSite(farm, settings)+"\n"))
	t.Cleanup(func() { nothingQueued(t, farm) })
	return b, farm, job
}

func clusterSite(farm *slurmfarm.Farm, settings string) string {
	return fmt.Sprintf("{name: cluster, provider: slurm, login: %s, scratch: %s%s}", farm.Names[0], filepath.Join(farm.Dir, "scratch"), settings)
}

// nothingQueued fails when a job or a file is left on the cluster.
func nothingQueued(t *testing.T, farm *slurmfarm.Farm) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		out, err := farm.Do("squeue", "--noheader")
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New("left in the queue:\n" + out)
		}
		left, _ := filepath.Glob(filepath.Join(farm.Dir, "scratch", "bee", "[^.c]*"))
		leases, _ := filepath.Glob(filepath.Join(farm.Dir, "scratch", "bee", ".slurm", "*"))
		if left = append(left, leases...); err == nil && len(left) > 0 {
			err = fmt.Errorf("left in scratch: %v", left)
		}
		return err
	})
}

const overAllNodes = `run: 'for h in h1 h2; do /.bee/rsh $h "hostname; cat /work/b.txt; echo \$BEE_NODE_RANK >/work/rank-\$BEE_NODE_RANK"; done'`

// TestRunOnASlurmClusterBehindItsLoginNode: over two compute nodes. One input is fetched by
// the login node, from a server that this machine does not reach.
func TestRunOnASlurmClusterBehindItsLoginNode(t *testing.T) {
	t.Parallel()
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	b, farm, job := clusterFor(t, []string{"SSL_CERT_FILE=" + trusted}, 2, ", slot: 10m", "nodes: 2",
		"inputs: [{from: ./in, to: /work}, {from: WEB, to: /in/}]",
		"setup: 'cmp a.txt /in/c.txt && tr a-z A-Z </in/c.txt >b.txt'", overAllNodes,
		"outputs: [{from: '/work/rank-*', to: ./results}, {from: /work/b.txt, to: ./results}]")
	b.File("in/a.txt", "data\n")
	web, digest := webOfASite(t, farm.Farm, trusted, "c.txt", "data\n")
	b.File(filepath.Base(job), strings.Replace(b.Read(filepath.Base(job)), "WEB", "'"+web+"', sha256: "+digest, 1))
	r := b.Try("run", "-q", "--name", "fetch", job)
	if r.Code != 0 || r.Stdout != "h1\nDATA\nh2\nDATA\n" {
		t.Fatalf("got %+v", r)
	}
	for file, want := range map[string]string{"rank-0": "0\n", "rank-1": "1\n", "b.txt": "DATA\n"} {
		if got := b.Read("results/" + file); got != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	if v := b.Await(strings.Fields(b.Must("ps", "-aq"))[0], time.Minute); len(v.Attempts) != 1 || fmt.Sprint(v.Attempts[0].Hosts) != "[h1 h2]" {
		t.Errorf("it is shown as %+v", v)
	}
	if ways := routesOfInputs(b, "fetch"); !slices.Equal(ways, []bool{false}) {
		t.Errorf("relayed were %v", ways)
	}
	reachInto(t, b, job, "nodes: 2", 1)
}

// begun waits until a run's command has written to its log.
func begun(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/work/log"); r.Code != 0 {
			return b.Explained(id, r.Stderr)
		}
		return nil
	})
}

// printed waits until a run's history has an event of a kind whose fields, as JSON, hold
// some words.
func printed(t *testing.T, b *testkit.Bee, id string, kind event.Kind, words string) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		if testkit.Events(b, id, kind, words) == 0 {
			return b.Explained(id, "not in its history: "+string(kind)+" "+words)
		}
		return nil
	})
}

const countingJob = "run: " + counter

func TestAPreemptedSlurmJobGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, ", slot: 10m, slurm: {partition: low}}\n  - {name: laptop, provider: local", "nodes: 1",
		"workdir: /work", "checkpoint: {grace: 40s}", "outputs: [{from: /work/*, to: results}]", countingJob)
	if plan := b.Must("plan", job); !strings.Contains(plan, " 35.0s ") || !strings.Contains(plan, "`checkpoint: {every: …}`") { // GraceTime of the partition, and KillWait
		t.Errorf("the plan does not tell of preemption:\n%s", plan)
	}
	id := strings.TrimSpace(b.Must("run", "-d", job))
	begun(t, b, id)
	printed(t, b, id, event.KindPreemption, `"grace_seconds":40,"notice_seconds":35`)
	time.Sleep(time.Second) // in which it counts
	if out, err := farm.Do("srun", "--partition=high", "--nodes=2", "--exclusive", "--mpi=none", "true"); err != nil {
		t.Fatal(err, out)
	}
	v := b.Await(id, 90*time.Second)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Site != "cluster" || v.Attempts[1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
}

// TestABusyClusterIsPassedOver: after `wait`, with the reason in plain words,
// also when the controller died meanwhile.
func TestABusyClusterIsPassedOver(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, ", wait: 12s}\n  - {name: laptop, provider: local", "volume: /data", "run: hostname >/data/where", "outputs: [{from: /data/where, to: results}]")
	if out, err := farm.Do("sbatch", "--nodes=2", "--exclusive", "--wrap='sleep 1000'"); err != nil {
		t.Fatal(err, out)
	}
	var plan []struct {
		Site   string
		Usable bool
		Start  time.Time
	}
	b.JSON(&plan, "plan", "--json", job)
	if len(plan) != 2 || plan[0].Site != "cluster" || !plan[0].Usable || time.Until(plan[0].Start) < 5*time.Minute || time.Until(plan[1].Start) > time.Minute {
		t.Errorf("the plan: %+v", plan)
	}
	if soonest := b.File("soonest.yaml", b.Read("job.yaml")+"order: soonest\n"); !strings.Contains(b.Must("plan", soonest), "laptop") {
		t.Error("the laptop is not in the plan")
	} else if r := b.Try("run", "--explain", soonest); r.Code != 0 || !strings.Contains(r.Stderr, " site laptop (") {
		t.Errorf("by the soonest start: %+v", r)
	} else if list, _, _ := strings.Cut(r.Stderr, " site laptop ("); !strings.Contains(list, "\ncluster ") {
		t.Errorf("the other site is not explained before the choice:\n%s", r.Stderr)
	}
	const killed = "  5.0s "
	for settings, is := range map[string]bool{"grace: 10s": true, "grace: 5s": false, "grace: 10s, every: 1m": false} {
		saving := b.File("saving.yaml", b.Read("job.yaml")+"checkpoint: {"+settings+"}\n")
		if text := b.Must("plan", saving); strings.Contains(text, killed) != is {
			t.Errorf("with %s:\n%s", settings, text)
		}
	}
	env := b.Env
	b.Env = append(slices.Clone(env), "PATH="+farm.Bin) // podman, when it is asked, leaves what only it can remove
	if text := b.Must("doctor"); !strings.Contains(text, " 5.0s ") {
		t.Errorf("the doctor:\n%s", text)
	}
	b.Env = env
	id := strings.TrimSpace(b.Must("run", "-d", job))
	printed(t, b, id, event.KindQueued, "it waits for nodes to become free")
	queued := func() string {
		out, err := farm.Do("squeue", "--noheader", "--name=bee-"+id, "--format=%i")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := queued()
	if out := b.Must("ps"); !strings.Contains(out, "queued") {
		t.Errorf("it waits, and bee ps says\n%s", out)
	}
	killControllers(t, b)
	b.Must("supervise") // starts another controller
	time.Sleep(time.Second)
	if again := queued(); first == "" || again != first {
		t.Errorf("the place in the queue was lost: job %q became %q", first, again)
	}
	v := b.Await(id, 60*time.Second)
	if v.State != "succeeded" || v.Attempts[len(v.Attempts)-1].Site != "laptop" {
		t.Fatalf("the run: %+v", v)
	}
	printed(t, b, id, event.KindSiteSkipped, `"site":"cluster"`)
	if out, err := farm.Do("scancel", "--user="+fmt.Sprint(os.Getuid())); err != nil {
		t.Fatal(err, out)
	}
}

func TestADrainedNodeIsWaitedFor(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, "", "nodes: 2", "run: hostname")
	if out, err := farm.Do("scontrol", "update", "nodename=h2", "state=drain", "reason=tests"); err != nil {
		t.Fatal(err, out)
	}
	id := strings.TrimSpace(b.Must("run", "-d", job))
	printed(t, b, id, event.KindQueued, "down, drained or reserved")
	if out, err := farm.Do("scontrol", "update", "nodename=h2", "state=resume"); err != nil {
		t.Fatal(err, out)
	}
	if v := b.Await(id, 60*time.Second); v.State != "succeeded" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if out := b.Must("logs", id); out != "h1\n" {
		t.Errorf("it said %q", out)
	}
}

// TestALostSlurmNodeMovesTheRun, which has no checkpoint yet: it begins again on the next
// site.
func TestALostSlurmNodeMovesTheRun(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, ", slot: 10m}\n  - {name: laptop, provider: local, hosts: 2", "nodes: 2",
		"workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]", countingJob)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	begun(t, b, id)
	if err := farm.Kill(t.Context(), 2); err != nil { // a power cut
		t.Fatal(err)
	}
	v := b.Await(id, 4*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if testkit.Events(b, id, event.KindMoved, `"site":"cluster"`, "h2") == 0 {
		t.Errorf("its history does not say why: %s", b.Must("show", id))
	}
}

func TestACancelledSlurmJobFailsTheRun(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, "", "run: sleep 1000")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("exec", id, "--", "true"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	if out, err := farm.Do("scancel", "--user="+fmt.Sprint(os.Getuid())); err != nil {
		t.Fatal(err, out)
	}
	if v := b.Await(id, 60*time.Second); v.State != "failed" || v.Error == nil || v.Error.Kind != "lost" || !strings.Contains(v.Error.Message, "`scancel`") {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
}

// beeThere is a command line of bee's on a host of a cluster, with the test's home.
func beeThere(t *testing.T, b *testkit.Bee) []string {
	return append(append([]string{"env"}, b.Env...), "BEE_SITES=", "BEE_SCRATCH=", "PATH="+os.Getenv("PATH"), testkit.Binary(t))
}

// TestOnTheLoginNodeAndInAnAllocation: there without ssh; and without a sites
// file where salloc has given nodes already.
func TestOnTheLoginNodeAndInAnAllocation(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, "", "nodes: 2", "setup: 'echo DATA >/work/b.txt'", overAllNodes, "outputs: [{from: '/work/rank-*', to: ./results}]")
	own := b.File("own.yaml", "sites: [{name: here, provider: slurm, scratch: "+filepath.Join(farm.Dir, "scratch")+"}]\n")
	there := func(before []string, args ...string) (string, error) {
		return farm.Do(append(append(before, beeThere(t, b)...), args...)...)
	}
	if out, err := there(nil, "--sites", own, "run", "-q", job); err != nil || !strings.Contains(out, "h1\nDATA\nh2\nDATA\n") {
		t.Errorf("on the login node: %v\n%s", err, out)
	}
	out, err := there([]string{"salloc", "--nodes=2", "--exclusive", "--quiet"}, "run", job)
	if err != nil || !strings.Contains(out, "h1\nDATA\n") || !strings.Contains(out, "h2\nDATA\n") || strings.Contains(out, waitsForNobody) {
		t.Errorf("in an allocation: %v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(b.Dir, ".bee", "bee", ".slurm", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestAKilledSlurmd: Slurm takes the node for lost and ends the job; the run
// continues elsewhere, from what was kept meanwhile.
func TestAKilledSlurmd(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, ", slot: 10m}\n  - {name: laptop, provider: local, hosts: 2", "nodes: 2", "workdir: /work",
		"checkpoint: {grace: 3s, every: 2s, paths: [/work/state]}", "outputs: [{from: /work/*, to: results}]", "run: "+strings.Replace(steadyCounter, "80", "160", 1))
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 60*time.Second, func() error {
		var v struct{ Checkpoints []struct{ Files int } }
		b.JSON(&v, "show", "--json", id)
		if len(v.Checkpoints) == 0 {
			return b.Explained(id, "no checkpoint is at home")
		}
		return nil
	})
	// This farm's alone, and not what asks for it: that would match itself.
	if out, err := farm.Do("pkill", "-KILL", "-f", "'[s]lurmd -D -f "+farm.Slurm+".* -N h2'"); err != nil {
		t.Fatal(err, out)
	}
	v := b.Await(id, 3*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") {
		t.Errorf("attempts began %q", log)
	}
	farm.StartNode(t, 2) // so that Slurm can tidy up there
}

// jobOf gives Slurm's number of a run's job.
func jobOf(t *testing.T, farm *slurmfarm.Farm, id string) string {
	t.Helper()
	return strings.TrimSpace(slurm(t, farm, "squeue", "--noheader", "--name=bee-"+id, "--format=%i"))
}

// TestASuspendedSlurmJobIsNoLostOne: its processes are halted as long as Slurm wants, and
// then the run continues, for as long as it would have.
func TestASuspendedSlurmJobIsNoLostOne(t *testing.T) {
	t.Parallel()
	const slot, margin = 2 * time.Minute, 30 * time.Second
	b, farm, job := cluster(t, 2, ", slot: 2m}\n  - {name: laptop, provider: local, hosts: 2", "nodes: 2",
		"workdir: /work", "checkpoint: {grace: 20s}", "outputs: [{from: /work/*, to: results}]", "run: "+strings.Replace(steadyCounter, "80", "160", 1))
	id := strings.TrimSpace(b.Must("run", "-d", job))
	begun(t, b, id)
	slurm(t, farm, "scontrol", "suspend", jobOf(t, farm, id))
	printed(t, b, id, event.KindHostsSuspended, "has suspended the job")
	time.Sleep(slot - margin + 5*time.Second) // it would be asked to write its checkpoint meanwhile, and any other silent host lost
	var v struct {
		State    string
		Attempts []struct{}
	}
	if b.JSON(&v, "show", "--json", id); v.State != "running" || len(v.Attempts) != 1 {
		t.Errorf("suspended, it is %+v\n%s", v, b.Must("show", id))
	}
	slurm(t, farm, "scontrol", "resume", jobOf(t, farm, id))
	printed(t, b, id, event.KindHostsResumed, `"ends":"`)
	if v := b.Await(id, 2*time.Minute); v.State != "succeeded" || len(v.Attempts) != 1 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); log != "from 0\n" {
		t.Errorf("attempts began %q", log)
	}
}

// TestSlurmsOwnSignal, asked for among the free options, has a job write its checkpoint long before
// its slot ends.
func TestSlurmsOwnSignal(t *testing.T) {
	t.Parallel()
	b, _, job := cluster(t, 1, ", slot: 3m, slurm: {options: ['--signal=TERM@160']}}\n  - {name: laptop, provider: local", "nodes: 1",
		"workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]", strings.Replace(countingJob, "60", "240", 1))
	begun := time.Now()
	id := strings.TrimSpace(b.Must("run", "-d", job))
	v := b.Await(id, 5*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Site != "cluster" || v.Attempts[1].Site != "laptop" {
		t.Fatalf("after %v the run: %+v\n%s", time.Since(begun), v, b.Must("show", id))
	}
	if v.Attempts[0].Answer == "" {
		t.Errorf("the job was not asked for its checkpoint: %+v", v)
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "240\n" {
		t.Errorf("attempts began %q", log)
	}
}
