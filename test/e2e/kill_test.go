package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// killCount is how many random kills the torture makes; BEE_TEST_KILLS asks
// for more.
func killCount(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("BEE_TEST_KILLS")); err == nil {
		return n
	}
	if testkit.Everything() {
		return 200
	}
	return 30
}

// TestKillAnythingAtAnyMoment kills one process of a run, of bee or of the job
// itself, at a random moment from its start to a little after its end. `bee supervise`
// must bring the run to an end, with all that the job has finished however
// it ended, and leave nothing behind.
func TestKillAnythingAtAnyMoment(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	b, job := busyboxJob(t, "nodes: 2", "run: 'sleep 0.1; echo done >/work/result; echo done >/data/beside; echo done'",
		"inputs: [{from: ./input, to: /data}]", "outputs: [{from: /work/result, to: ./results}, {from: /data/beside, to: ./results}]")
	b.File("job.yaml", b.Read("job.yaml")+"env: {TEST_BEE_DIR: "+b.Dir+"}\n") // else containers would be neither victims nor leftovers
	b.File("input/in.txt", "data\n")
	run := []string{"--sites", labSites(b, "2"), "run", "-q", job}
	b.Must(run...) // fills the image cache
	begun := time.Now()
	b.Must(run...)
	lasts := time.Since(begun)
	b.Must("rm", "--finished")
	ends := map[string]int{}
	for i := range killCount(t) {
		os.RemoveAll(b.Work + "/results")
		c := b.Command(run...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		over, killed := make(chan error, 1), "nothing"
		go func() { over <- c.Wait() }()
		select {
		case <-time.After(time.Duration(random.Int64N(int64(lasts * 13 / 10)))): // the random moment, not a wait for something
			if victims := b.Processes(); len(victims) > 0 {
				killed = victims[random.IntN(len(victims))]
				pid, _ := strconv.Atoi(strings.Fields(killed)[0])
				testkit.Kill(pid)
			}
			<-over //nolint:errcheck // it was killed
		case <-over: //nolint:errcheck // its runs are looked at
		}
		ids := strings.Fields(b.Must("ps", "-aq"))
		if len(ids) == 0 {
			ends["never recorded"]++
			continue
		}
		b.Must("supervise")
		v := b.Await(ids[0], 60*time.Second)
		ends[v.State]++
		if v.State != "succeeded" && (v.State != "failed" || v.Error == nil && v.ExitCode == nil) {
			t.Fatalf("round %d, with %s killed: ended as %+v", i, killed, v)
		}
		if v.State == "succeeded" || strings.Contains(b.Must("logs", v.ID), "done") {
			for _, name := range []string{"results/result", "results/beside"} {
				if got, err := os.ReadFile(filepath.Join(b.Work, name)); string(got) != "done\n" {
					t.Fatalf("round %d, with %s killed: the job was done and the run has %s, but %s holds %q (%v)\n%s", i, killed, v.State, name, got, err, b.Must("show", v.ID))
				}
			}
		}
		b.CheckNothingLeft(20 * time.Second)
		b.Must("rm", v.ID)
	}
	t.Log(fmt.Sprint(ends))
	if ends["succeeded"] == 0 {
		t.Errorf("no run succeeded: %v", ends)
	}
}

// TestAHungHeadIsNoticed: it takes connections, and says nothing.
func TestAHungHeadIsNoticed(t *testing.T) {
	t.Parallel()
	b := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{})
	job := b.File("job.yaml", "image: docker-archive:"+image+"\nrun: echo up > /work/up; sleep 1000\n")
	id := strings.TrimSpace(b.Must("run", "--detach", job))
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/work/up"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	stopped := 0
	for _, p := range b.Processes() {
		pid, command, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil && strings.HasSuffix(strings.TrimSpace(command), " node") {
			syscall.Kill(n, syscall.SIGSTOP)
			stopped++
		}
	}
	if stopped != 1 {
		t.Fatalf("%d nodes were stopped of %v", stopped, b.Processes())
	}
	v := b.Await(id, 90*time.Second)
	if v.State != "failed" || v.Error == nil || v.Error.Kind != "lost" {
		t.Errorf("the run ended as %s: %+v", v.State, v.Error)
	}
}

// TestKillTheControllerOfAMovingRun: the controller that takes over neither forgets a
// checkpoint nor goes back behind one.
func TestKillTheControllerOfAMovingRun(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]", "run: "+counter)
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, slot: 17s}\n  - {name: two, provider: local, slot: 17s}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range 12 {
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond) // the random moment, not a wait for something
		for _, p := range b.Processes() {
			pid, command, _ := strings.Cut(p, " ")
			if n, err := strconv.Atoi(pid); err == nil && !strings.Contains(command, " node") && !strings.Contains(command, " init") && strings.Contains(command, "bee") {
				syscall.Kill(n, syscall.SIGKILL)
			}
		}
		b.Must("supervise") // starts another
	}
	v := b.Await(id, 3*time.Minute)
	if v.State != "succeeded" {
		t.Fatalf("the run: %+v", v)
	}
	last := 0 // an attempt may end before it has counted further
	for line := range strings.Lines(b.Read("results/log")) {
		n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "from ")))
		if err != nil || n < last {
			t.Errorf("an attempt began at %q, after one at %d", line, last)
		}
		last = n
	}
	if b.Read("results/done") != "60\n" {
		t.Error("it did not count to its end")
	}
}

// TestKillAnythingOnACluster does the same where there are more kinds of
// processes: the controller, its ssh, the agents on the login node and on the
// compute nodes, srun, the nodes and what runs in their containers.
func TestKillAnythingOnACluster(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	b, farm, job := cluster(t, 2, ", slot: 10m", "nodes: 2", "run: 'sleep 0.3; echo done >/work/result; echo done'", "outputs: [{from: /work/result, to: ./results}]")
	victims := func() []int {
		var found []int
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			command, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			words := strings.ReplaceAll(string(command), "\x00", " ")
			ours := strings.Contains(words, b.Dir) || strings.Contains(words, farm.Dir)
			if node, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && strings.Contains(string(node), "BEE_TERM_IS_NOTICE=1") && strings.Contains(string(node), farm.Slurm) {
				ours = true
			}
			for _, spared := range []string{"sshd", "slurmd ", "slurmctld", "munged", "emulated-hosts", "sshfarm-dial", "slurmstepd"} {
				ours = ours && !strings.Contains(words, spared)
			}
			if ours && words != "" {
				found = append(found, pid)
			}
		}
		return found
	}
	ends := map[string]int{}
	for i := range max(killCount(t)/5, 2) {
		os.RemoveAll(b.Work + "/results")
		c := b.Command("run", "-q", job)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond) // the random moment, not a wait for something
		if list := victims(); len(list) > 0 {
			testkit.Kill(list[random.IntN(len(list))])
		}
		c.Wait() //nolint:errcheck // it was killed
		ids := strings.Fields(b.Must("ps", "-aq"))
		if len(ids) == 0 {
			ends["never recorded"]++
			continue
		}
		b.Must("supervise")
		v := b.Await(ids[0], 120*time.Second)
		ends[v.State]++
		switch {
		case v.State == "succeeded":
			if got := b.Read("results/result"); got != "done\n" {
				t.Fatalf("round %d: succeeded, but the result holds %q", i, got)
			}
		case v.State != "failed" || v.Error == nil && v.ExitCode == nil:
			t.Fatalf("round %d: ended as %+v\n%s", i, v, b.Must("show", v.ID))
		}
		b.Must("sweep")
		nothingQueued(t, farm)
		b.Must("rm", v.ID)
	}
	t.Log(fmt.Sprint(ends))
	if ends["succeeded"] == 0 {
		t.Errorf("no run succeeded: %v", ends)
	}
}
