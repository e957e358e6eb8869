package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// queuedVariable says how many runs wait in TestManyRunsWaitAtOneCluster, and over how
// many seconds what that takes is measured, such as 1000/60.
const queuedVariable = "BEE_TEST_QUEUED"

// TestManyRunsWaitAtOneCluster: however many they are, one controller watches them through
// one login, and they share each look at the queue.
func TestManyRunsWaitAtOneCluster(t *testing.T) {
	t.Parallel()
	many, window := 12, 5
	if printed := os.Getenv(queuedVariable); printed != "" {
		if _, err := fmt.Sscanf(printed, "%d/%d", &many, &window); err != nil {
			t.Fatal(err)
		}
	}
	b, farm, job := cluster(t, 1, ", slot: 10m, wait: 100h", "run: 'true'")
	drain(t, farm)
	begun := time.Now()
	for range many {
		b.Must("run", "-q", "-d", job)
	}
	submitting := time.Since(begun)
	timeout := 30*time.Second + time.Duration(many)*time.Second
	t.Cleanup(func() {
		b.Must("stop", "--all")
		testkit.Eventually(t, timeout, func() error {
			if left := slurm(t, farm, "squeue", "--noheader"); left != "" {
				return errors.New("left in the queue:\n" + left)
			}
			return nil
		})
	})
	testkit.Eventually(t, timeout, func() error {
		if n := strings.Count(slurm(t, farm, "squeue", "--noheader", "--states=PENDING", "--format=%i"), "\n"); n != many {
			return fmt.Errorf("%d jobs wait", n)
		}
		return nil
	})
	testkit.Eventually(t, timeout, func() error { // each is followed, and nothing more is brought there
		if reported := strings.Count(b.Must("ps", "--format", "{{.state}}"), "queued\n"); reported != many {
			return fmt.Errorf("%d of %d runs wait", reported, many)
		}
		return nil
	})
	testkit.Eventually(t, timeout, func() error { // of which each comes with a login
		if n := len(b.Controllers()); n != 1 {
			return fmt.Errorf("%d controllers", n)
		}
		return nil
	})
	var logins []int
	testkit.Eventually(t, timeout, func() error {
		if logins = agents(t, farm); len(logins) != 1 {
			return fmt.Errorf("logins %v", logins)
		}
		return nil
	})
	controller := b.Controllers()[0]
	looks, computed, served := asked(t, slurm(t, farm, "sdiag")), processorTime(t, controller), processorTime(t, logins[0])
	time.Sleep(time.Duration(window) * time.Second)
	looks, computed, served = asked(t, slurm(t, farm, "sdiag"))-looks, processorTime(t, controller)-computed, processorTime(t, logins[0])-served
	if again := agents(t, farm); len(again) != 1 || again[0] != logins[0] {
		t.Errorf("logins %v, before %v", again, logins)
	}
	share := func(d time.Duration) float64 { return d.Seconds() / float64(window) }
	testkit.Figure(t, "%d queued runs at one cluster behind ssh: controller %.3f cores, %.1f MB; the login's agent %.3f cores, %.1f MB; %d looks at the queue in %d s; submitted in %.2f s each",
		many, share(computed), memory(t, controller), share(served), memory(t, logins[0]), looks, window, submitting.Seconds()/float64(many))
}

// agents lists the processes that serve logins to a cluster.
func agents(t *testing.T, farm *slurmfarm.Farm) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		argv, err1 := os.ReadFile(path)
		environ, err2 := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if err1 == nil && err2 == nil && bytes.HasSuffix(argv, []byte("\x00remote\x00")) && bytes.Contains(environ, []byte(farm.Env[0]+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// asked is how often squeue has asked for jobs, by what sdiag reports.
func asked(t *testing.T, diagnosis string) (n int) {
	t.Helper()
	for line := range strings.Lines(diagnosis) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), "count:")
		if !ok || !strings.HasPrefix(name, "REQUEST_JOB_INFO") && !strings.HasPrefix(name, "REQUEST_JOB_USER_INFO") {
			continue
		}
		var count int
		if _, err := fmt.Sscan(rest, &count); err != nil {
			t.Fatal(line, err)
		}
		n += count
	}
	return n
}

// processorTime is what a process has used so far, proc(5).
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory is a process's share of it, in MB.
func memory(t *testing.T, pid int) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var kilobytes float64
		if n, _ := fmt.Sscanf(line, "Pss: %f kB", &kilobytes); n == 1 {
			return kilobytes / 1000
		}
	}
	t.Fatalf("process %d: no Pss", pid)
	return 0
}

// TestPacksAreFewJobs: a queue sees a job for each pack, and none for a case.
func TestPacksAreFewJobs(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, ", slot: 10m, wait: 100h", "array: {cases: {s: {from: 1, to: 20}}, pack: 10}\ncores: 1\nrun: echo ${case.s} > out\noutputs: [{from: out, to: \"./results/${case.s}\"}]")
	if r := b.Try("run", "--json", job); r.Code != 0 {
		t.Fatalf("got %+v", r)
	}
	for i := range 20 {
		if got, err := os.ReadFile(filepath.Join(b.Work, "results", strconv.Itoa(i+1), "out")); err != nil || string(got) != fmt.Sprintln(i+1) {
			t.Errorf("case %d: %v, %q", i+1, err, got)
		}
	}
	if jobs := slurm(t, farm, "squeue", "--noheader", "--states=all", "--format=%j"); strings.Count(jobs, "bee-") != 2 {
		t.Errorf("these are jobs: %q", jobs)
	}
}
