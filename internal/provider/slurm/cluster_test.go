package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// want is a request of one node for a run.
func want(run string) driver.Request {
	return driver.Request{Owner: core.Owner{User: "u", Run: run, Attempt: 1}, Nodes: 1}
}

// acquired is a lease that is released at the end.
func acquired(t *testing.T, p driver.Provider, r driver.Request) driver.Lease {
	t.Helper()
	l, err := p.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Release(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return l
}

// waits waits until a lease is ready, or waits for what the words say.
func waits(t *testing.T, l driver.Lease, words string) driver.Waiting {
	t.Helper()
	var w driver.Waiting
	testkit.Eventually(t, 90*time.Second, func() (err error) {
		w, err = l.Queue().Ready(t.Context())
		if err == nil && (words == "") != w.Ready || !strings.Contains(w.Reason, words) {
			err = fmt.Errorf("%+v", w)
		}
		return err
	})
	return w
}

// forecast checks when Slurm would start a job of one node, and why not at once.
func forecast(t *testing.T, p driver.Provider, at time.Time, why string) {
	t.Helper()
	w, err := p.Queue().Forecast(t.Context(), want("forecast"))
	if err != nil || w.Expected.Sub(at).Abs() > reckons || !strings.HasPrefix(w.Reason, why) || why == "" && w.Reason != "" {
		t.Errorf("want %v, %q; the forecast is %+v, %v", at, why, w, err)
	}
}

func scontrol(t *testing.T, f *slurmfarm.Farm, args ...string) {
	t.Helper()
	if out, err := f.Do(append([]string{"scontrol"}, args...)...); err != nil {
		t.Fatal(err, out)
	}
}

// TestWhatSitesDo is what the staff of a site do with its nodes, one after the other on
// one cluster, whose nodes are unlike.
func TestWhatSitesDo(t *testing.T) {
	f := slurmfarm.Start(t, 2, 2, 4)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(t *testing.T, name string, more ...string) {
		t.Helper()
		scontrol(t, f, append([]string{"create", "reservation", "reservationname=" + name, "users=" + me.Username}, more...)...)
		t.Cleanup(func() {
			f.Do("scontrol", "delete", "reservationname="+name) //nolint:errcheck // the cluster goes too
		})
	}
	t.Run("unlike nodes", func(t *testing.T) {
		p := site(t, f, Settings{Partition: "brief,main"})
		r := want("wide")
		r.SlotsPerNode = 4
		l := acquired(t, p, r)
		waits(t, l, "")
		if hosts := l.Hosts(); len(hosts) != 1 || hosts[0].Name != "h2" {
			t.Errorf("%+v", hosts)
		}
		r.Nodes, r.Owner.Run = 2, "wider"
		if _, err := p.Acquire(t.Context(), r); !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "`nodes:`, `cores:`") {
			t.Errorf("two of them: %v", err)
		}
		if facts, err := p.Probe(t.Context()); err != nil || !facts.Usable || facts.Hosts != 2 || facts.Slots != 4 || facts.Detail["partition"] != "main,brief" || facts.Notice != 5*time.Second {
			t.Errorf("%+v, %v", facts, err)
		}
	})
	t.Run("a feature and licences", func(t *testing.T) {
		scontrol(t, f, "update", "nodename=h2", "availablefeatures=fast", "activefeatures=fast")
		l := acquired(t, site(t, f, Settings{Constraint: "fast", Licenses: "lab:2"}), want("rare"))
		waits(t, l, "")
		if hosts := l.Hosts(); len(hosts) != 1 || hosts[0].Name != "h2" {
			t.Errorf("the feature is h2's, and these are given: %+v", hosts)
		}
		if out, err := f.Do("scontrol", "show", "licenses"); err != nil || !strings.Contains(out, "Used=2 Free=0") {
			t.Errorf("the licences: %s, %v", out, err)
		}
	})
	t.Run("a slot that one of two partitions allows", func(t *testing.T) {
		acquired(t, site(t, f, Settings{Partition: "brief,main", Slot: time.Hour}), want("hour"))
	})
	t.Run("preemption", func(t *testing.T) {
		scontrol(t, f, "create", "partitionname=scavenge", "nodes=ALL") // with the cluster's PreemptMode, and no grace
		for partitions, last := range map[string]time.Duration{"main": 0, "high": 0, "low": 35 * time.Second, "scavenge": 5 * time.Second, "low,scavenge": 5 * time.Second, "main,low": 35 * time.Second} {
			if facts, err := site(t, f, Settings{Partition: partitions}).Probe(t.Context()); err != nil || facts.Preempted != last {
				t.Errorf("%s: %+v, %v", partitions, facts, err)
			}
		}
	})
	t.Run("maintenance", func(t *testing.T) {
		begins := time.Now().Add(6 * time.Minute)
		reserve(t, "maintenance", "starttime="+begins.Format("2006-01-02T15:04:05"), "duration=60", "flags=maint", "nodes=ALL")
		forecast(t, site(t, f, Settings{Slot: 30 * time.Minute}), begins.Add(time.Hour), "maintenance (reservation maintenance) begins at "+begins.Format("2006-01-02 15:04")+", before the job could end")
		forecast(t, site(t, f, Settings{Slot: time.Minute}), time.Now(), "")
		whole := acquired(t, site(t, f, Settings{Slot: 30 * time.Minute}), want("whole"))
		waits(t, whole, "for maintenance, before it could end")
		shorter := acquired(t, site(t, f, Settings{Slot: 30 * time.Minute, MinSlot: time.Minute}), want("shorter"))
		waits(t, shorter, "")
		if ends := shorter.Deadline(); ends.IsZero() || ends.After(begins.Add(time.Second)) {
			t.Errorf("it may compute until %v, and maintenance begins at %v", ends, begins)
		}
	})
	t.Run("a reservation", func(t *testing.T) {
		reserve(t, "course", "starttime=now", "duration=60", "nodes=ALL")
		forecast(t, site(t, f, Settings{Slot: 30 * time.Minute}), time.Now().Add(time.Hour), "reservation course ")
		waits(t, acquired(t, site(t, f, Settings{}), want("outside")), "reserved")
		waits(t, acquired(t, site(t, f, Settings{Reservation: "course"}), want("inside")), "")
		_, err := site(t, f, Settings{Reservation: "nowhere"}).Acquire(t.Context(), want("nowhere"))
		if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "scontrol show reservation") {
			t.Errorf("one that there is not: %v (%s)", err, core.Remedy(err))
		}
	})
	t.Run("suspending", func(t *testing.T) {
		l := acquired(t, site(t, f, Settings{}), want("still"))
		waits(t, l, "")
		id, err := f.Do("squeue", "--noheader", "--format=%i", "--name=bee-still")
		if err != nil {
			t.Fatal(err)
		}
		scontrol(t, f, "suspend", strings.TrimSpace(id))
		if s, err := l.Status(t.Context()); err != nil || !s.Live || !strings.Contains(s.Reason, new(job).standing()) {
			t.Errorf("suspended: %+v, %v", s, err)
		}
		if alive, err := l.NodeAlive(t.Context(), 0); alive || !core.IsKind(err, core.Transient) {
			t.Errorf("a node that stands still: %v, %v", alive, err)
		}
		scontrol(t, f, "resume", strings.TrimSpace(id))
		testkit.Eventually(t, 30*time.Second, func() error {
			s, err := l.Status(t.Context())
			if alive, aerr := l.NodeAlive(t.Context(), 0); err == nil && (!s.Live || s.Reason != "" || !alive || !s.Ends.After(l.Deadline())) {
				err = fmt.Errorf("%+v, %v, %w", s, alive, aerr)
			}
			return err
		})
	})
	t.Run("one login", func(t *testing.T) {
		scontrol(t, f, "update", "nodename=ALL", "state=drain", "reason=tests")
		defer scontrol(t, f, "update", "nodename=ALL", "state=resume")
		before, logins := sessions(t), &sshlink.Logins{}
		ours := func() []int {
			return slices.DeleteFunc(sessions(t), func(pid int) bool { return slices.Contains(before, pid) })
		}
		leases := make([]driver.Lease, 12)
		var wg sync.WaitGroup
		for i := range leases { // each run makes its own provider
			p := siteAmong(t, f, Settings{}, logins)
			wg.Go(func() {
				var err error
				if leases[i], err = p.Acquire(t.Context(), want(fmt.Sprint("many-", i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		look := func() {
			testkit.Eventually(t, 30*time.Second, func() error {
				errs := make([]error, len(leases))
				for i, l := range leases {
					wg.Go(func() {
						var w driver.Waiting
						if w, errs[i] = l.Queue().Ready(t.Context()); w.Ready {
							errs[i] = fmt.Errorf("run %d: %+v", i, w)
						}
					})
				}
				wg.Wait()
				return errors.Join(errs...)
			})
		}
		look()
		first := ours()
		if len(first) != 1 {
			t.Fatalf("there are logins %v for %d runs", first, len(leases))
		}
		testkit.Kill(first[0]) // the line breaks
		look()
		if second := ours(); len(second) != 1 || second[0] == first[0] {
			t.Errorf("after a broken line there are logins %v, before %v", second, first)
		}
		for _, l := range leases {
			wg.Go(func() {
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		testkit.Eventually(t, 30*time.Second, func() error {
			if left := ours(); len(left) > 0 {
				return fmt.Errorf("logins %v are left that nobody uses", left)
			}
			return nil
		})
	})
}

// sessions lists the ssh processes of this one that lead to agents.
func sessions(t *testing.T) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		stat, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil || !strings.Contains(string(stat), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			continue
		}
		if argv, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil && strings.Contains(string(argv), "BatchMode") {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestOneLookForAll: many who ask for their jobs at a time share a squeue.
func TestOneLookForAll(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$*\" >>" + calls + "\nsleep 0.3\nfor i in $(seq 1 300); do echo \"bee-job|$i|$i|PENDING|Priority|N/A|N/A|1|main|normal|/x\"; done\n"
	if err := core.WriteProgram(filepath.Join(dir, "squeue"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	q := &Queue{}
	var wg sync.WaitGroup
	for i := 1; i <= 301; i++ {
		wg.Go(func() {
			j, err := q.job(t.Context(), fmt.Sprint(i))
			if err != nil || (j == nil) != (i == 301) || j != nil && (j.id != fmt.Sprint(i) || j.state != "PENDING") {
				t.Errorf("job %d: %+v, %v", i, j, err)
			}
		})
	}
	wg.Wait()
	raw, err := os.ReadFile(calls)
	if n := strings.Count(string(raw), "\n"); err != nil || n > 30 || !strings.Contains(string(raw), "--user=") {
		t.Errorf("%d calls, %v: %s", n, err, raw[:min(len(raw), 500)])
	}
	if err := core.WriteProgram(filepath.Join(dir, "squeue"), []byte("#!/bin/sh\necho 'squeue: error: Unable to contact slurm controller' >&2; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if j, err := q.job(t.Context(), "1"); j != nil || !core.IsKind(err, core.Transient) {
		t.Errorf("no controller: %+v, %v", j, err)
	}
}

// TestFewAskForNodes at a time, however many want some.
func TestFewAskForNodes(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	for name, script := range map[string]string{"sinfo": "echo 'main*|up|infinite|2|2|4000'", "squeue": "true", "sbatch": "echo begin >>" + calls + "\nsleep 0.1\necho end >>" + calls + "\nexit 1"} {
		if err := core.WriteProgram(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	p, err := New(Settings{Scratch: dir, HostArgv: []string{"true"}, Queue: &Queue{}})
	if err != nil {
		t.Fatal(err)
	}
	const many = 20
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			if _, err := p.Acquire(t.Context(), want(fmt.Sprintf("run%d", i))); err == nil {
				t.Error("it got nodes of an sbatch that fails")
			}
		})
	}
	wg.Wait()
	raw, err := os.ReadFile(calls)
	inside, most := 0, 0
	for line := range strings.Lines(string(raw)) {
		if inside++; line == "end\n" {
			inside -= 2
		}
		most = max(most, inside)
	}
	if n := strings.Count(string(raw), "begin"); err != nil || n != many || most > fewEnter {
		t.Errorf("%d calls, %d at a time, %v", n, most, err)
	}
}

// TestReasons: what squeue(1) names is reported in plain words, and only what does not pass
// by waiting ends the waiting.
func TestReasons(t *testing.T) {
	for reason, hopeless := range map[string]bool{
		"Priority": false,
		"ReqNodeNotAvail, Reserved for maintenance":      false,
		"ReqNodeNotAvail, May be reserved for other job": false,
		"ReqNodeNotAvail, UnavailableNodes:h[1-2]":       false,
		"Reservation":             false,
		"ReservationDeleted":      true,
		"AssocGrpCpuLimit":        false,
		"AssocGrpCPUMinutesLimit": false,
		"AssocMaxJobsLimit":       false,
		"AssocGrpBillingMinutes":  false,
		"QOSMaxJobsPerUserLimit":  false,
		"QOSGrpNodeLimit":         false,
		"QOSMaxCpuPerUserLimit":   false,
		"QOSMaxMemoryPerJob":      true,
		"QOSMaxCpuPerNode":        true,
		"QOSMinGRES":              false,
		"QOSMinCpuNotSatisfied":   true,
		"MaxMemPerLimit":          false,
		"JobArrayTaskLimit":       false,
		"PartitionTimeLimit":      true,
		"InvalidAccount":          true,
		"InvalidQOS":              true,
		"BadConstraints":          true,
	} {
		j := &job{state: "PENDING", reason: reason}
		if j.hopeless() != hopeless {
			t.Errorf("%s: hopeless %v", reason, j.hopeless())
		}
		testkit.Wording(t, reason, j.waiting())
	}
	for _, state := range []string{"CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "DEADLINE", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "REVOKED"} {
		testkit.Wording(t, "a job that is "+state, (&job{state: state}).ending())
	}
	testkit.Wording(t, "a suspended job", new(job).standing())
}

// TestWhatQueues: a job that waits does so in several states, and is not taken for one
// whose nodes are starting.
func TestWhatQueues(t *testing.T) {
	for state, queued := range map[string]bool{
		"PENDING": true, "REQUEUED": true, "REQUEUE_HOLD": true, "REQUEUE_FED": true, "SPECIAL_EXIT": true, "RESV_DEL_HOLD": true, "EXPEDITING": true,
		"CONFIGURING": false, "RUNNING": false, "SUSPENDED": false, "STOPPED": false, "COMPLETING": false, "CANCELLED": false,
	} {
		if j := (&job{state: state}); j.queued() != queued || j.over() != (state == "CANCELLED") {
			t.Errorf("%s: queued %t, over %t", state, j.queued(), j.over())
		}
	}
	// Nothing is concluded from a state that Slurm may have one day: the job may compute.
	if j := (&job{state: "POWER_UP_NODE"}); j.over() || j.gone() {
		t.Error("a job in a state that is not known counts as ended")
	}
}
