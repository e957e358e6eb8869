package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// smallDisk mounts, as only root can, a file system of that size on a new directory of
// the test's, and gives what enlarges it.
func smallDisk(t *testing.T, b *testkit.Bee, name, size string) (dir string, enlarge func()) {
	t.Helper()
	dir = filepath.Dir(b.File(name+"/hidden", ""))
	if err := unix.Mount("small", dir, "tmpfs", 0, "mode=755,size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, func() {
		if err := unix.Mount("small", dir, "tmpfs", unix.MS_REMOUNT, "size=1g"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullCacheIsToldAndLeavesNothing(t *testing.T) {
	testkit.RequireRoot(t)
	b, job := busyboxJob(t, "run: echo never")
	dir, enlarge := smallDisk(t, b, "small", "1500k")
	if f := b.Fail("--cache", dir, "run", "-q", job); f.Kind != "transient" || !strings.Contains(f.Remedy, "`bee image prune`") {
		t.Fatalf("got %+v", f)
	}
	if left, _ := os.ReadDir(dir + "/tmp"); len(left) > 0 {
		t.Errorf("left in it: %v", left)
	}
	enlarge()
	if r := b.Try("--cache", dir, "run", "-q", job); r.Code != 0 {
		t.Errorf("with more space: %+v", r)
	}
}

// What a job computed stays on its site until there is room for it on the submitting machine.
func TestResultsThatFindNoRoomAreNotLost(t *testing.T) {
	testkit.RequireRoot(t)
	b, job := busyboxJob(t, "workdir: /work", "run: head -c 3000000 /dev/zero >/work/out", "outputs: [{from: /work/out, to: results}]")
	dir, enlarge := smallDisk(t, b, "results", "1000k")
	r := b.Try("run", "-q", job)
	if r.Code == 0 || !strings.Contains(r.Stderr, "no space left") || !strings.Contains(r.Stderr, "`bee stop --without-outputs ") {
		t.Fatalf("got %+v", r)
	}
	enlarge()
	testkit.Eventually(t, 20*time.Second, func() error { // which continues it
		b.Must("supervise")
		info, err := os.Stat(dir + "/out")
		if err == nil && info.Size() != 3000000 {
			err = os.ErrInvalid
		}
		return err
	})
	if v := b.Await("small", 20*time.Second); v.State != "succeeded" {
		t.Errorf("it ended as %s", v.State)
	}
}

// doneOnceBlocked is what a job runs whose outputs shall find something in their way on the submitting machine.
const doneOnceBlocked = "run: 'until [ -e blocked ]; do sleep 0.1; done; echo done > end'"

// blocked begins such a run, and gives its id once a file has that name on the submitting machine.
func blocked(t *testing.T, b *testkit.Bee, job, name string) string {
	t.Helper()
	id := strings.TrimSpace(b.Must("run", "--detach", job))
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("exec", id, "--", "true"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	b.File(name, "in the way")
	b.Touch(id, "blocked")
	return id
}

// TestOutputsThatCanNeverComeHome: their run can be ended all the same, and the process that carried
// it ends, too.
func TestOutputsThatCanNeverComeHome(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", doneOnceBlocked, "outputs: [{from: /work/end, to: results}]")
	b.File("results", "in the way")
	if r := b.Try("run", "-q", job); r.Code != 201 || !strings.Contains(r.Stderr, "outputs[0].to: "+b.Work+"/results: ") {
		t.Errorf("before it is begun: %+v", r)
	}
	os.Remove(b.Work + "/results")
	id := blocked(t, b, job, "results")
	testkit.Eventually(t, 30*time.Second, func() error {
		if testkit.Events(b, id, event.KindCollectFailed) == 0 {
			return b.Explained(id, "its outputs are collected, or not yet")
		}
		return nil
	})
	b.Must("stop", "--without-outputs", id)
	if v := b.Await(id, 20*time.Second); v.State != "stopped" {
		t.Errorf("it is %+v", v)
	}
	if testkit.Events(b, id, event.KindOutputsSkipped) != 1 {
		t.Errorf("not one event reports outputs that were skipped: %s", b.Must("show", id))
	}
	if got := b.Read("results"); got != "in the way" {
		t.Errorf("in the place of its outputs lies %q", got)
	}
	b.CheckNothingLeft(20 * time.Second)
}

func TestAFullStateDirectoryIsTold(t *testing.T) {
	testkit.RequireRoot(t)
	b, job := busyboxJob(t, "run: echo never")
	dir, enlarge := smallDisk(t, b, "small", "1000k")
	if err := os.WriteFile(dir+"/filler", make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	r := b.Try("--state-dir", dir+"/state", "run", "-q", job)
	if r.Code == 0 || !strings.Contains(r.Stderr, "disk") || !strings.Contains(r.Stderr, "BEE_STATE") {
		t.Fatalf("got %+v", r)
	}
	enlarge()
	if r := b.Try("--state-dir", dir+"/state", "run", "-q", job); r.Code != 0 || r.Stdout != "never\n" {
		t.Errorf("with more space: %+v", r)
	}
}

// A site whose disk is full cannot take a run; the next one can.
func TestAFullScratchIsPassedOver(t *testing.T) {
	testkit.RequireRoot(t)
	for name, room := range map[string]int64{"nothing fits": 0, "the inputs do not fit": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			b, job := busyboxJob(t, "inputs: [{from: ./input, to: /work/}]", "run: cat /work/input | wc -c")
			b.File("input", strings.Repeat("x", 2<<20))
			dir, _ := smallDisk(t, b, "small", "3m")
			filler, err := os.Create(dir + "/filler")
			if err != nil {
				t.Fatal(err)
			}
			defer filler.Close()
			if _, err := filler.Write(make([]byte, 4<<20)); err == nil {
				t.Fatal("the disk is not full")
			}
			if err := filler.Truncate(3<<20 - room); err != nil {
				t.Fatal(err)
			}
			sites := b.File("sites.yaml", "sites:\n  - {name: tight, provider: local, scratch: "+dir+"/scratch}\n  - {name: roomy, provider: local}\n")
			r := b.Try("--sites", sites, "run", job)
			if r.Code != 0 || r.Stdout != "2097152\n" || !strings.Contains(r.Stderr, " site tight") || !strings.Contains(r.Stderr, "no space left") {
				t.Errorf("got %+v", r)
			}
			if f := b.Fail("--sites", sites, "run", "--site", "tight", job); f.Kind != "transient" || !strings.Contains(f.Message, "no space left") || f.Remedy == "" {
				t.Errorf("with no other site: %+v", f)
			}
			id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", "--wait", "1h", "--site", "tight", job))
			testkit.Eventually(t, time.Minute, func() error {
				if testkit.Events(b, id, event.KindNoSite, `"site":"tight"`, `"until":`) == 0 {
					return b.Explained(id, "no site was asked")
				}
				return nil
			})
			b.Must("stop", id)
		})
	}
}

// TestACheckpointThatASiteHasNoRoomFor is brought to the one after it, whole.
func TestACheckpointThatASiteHasNoRoomFor(t *testing.T) {
	testkit.RequireRoot(t)
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 5s}", "outputs: [{from: /work/*, to: results}]",
		"setup: head -c 8000000 /dev/urandom >noise; md5sum noise >sum", "run: "+strings.Replace(counter, "|\n", "|\n  md5sum -c sum || exit 9\n", 1))
	dir, _ := smallDisk(t, b, "small", "6m")
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites:\n  - {name: first, provider: local}\n  - {name: tight, provider: local, scratch: "+dir+"/scratch}\n  - {name: roomy, provider: local}\n"))
	id := strings.TrimSpace(b.Must("run", "-d", job))
	begun(t, b, id)
	b.Must("move", id)
	v := b.Await(id, time.Minute)
	out := b.Must("show", id)
	if v.State != "succeeded" || v.Attempts[len(v.Attempts)-1].Site != "roomy" || !strings.Contains(out, " site tight") || !strings.Contains(out, "no space left") {
		t.Fatalf("the run: %+v\n%s", v, out)
	}
	if log := b.Read("results/log"); strings.Count(log, "from ") != 2 || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
	if left, _ := os.ReadDir(dir + "/scratch/bee/" + id); len(left) > 0 {
		t.Errorf("left on the full site: %v", left)
	}
}
