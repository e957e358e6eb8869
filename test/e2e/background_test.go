package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

func TestDetachedRunIsFoundAgain(t *testing.T) {
	b, job := busyboxJob(t, "run: 'echo first; sleep 1; echo last'", "outputs: [{from: /work/no-such-*, to: ./results, optional: true}]")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	if out := b.Must("logs", "-f", id); out != "first\nlast\n" {
		t.Errorf("logs -f gave %q", out)
	}
	v := b.Await(id, 20*time.Second)
	if v.State != "succeeded" || *v.ExitCode != 0 || len(v.Attempts) != 1 || v.Attempts[0].Phases["run"] < 0.9 {
		t.Errorf("got %+v", v)
	}
	if out := b.Must("logs", "small"); out != "first\nlast\n" {
		t.Errorf("logs by name, afterwards, gave %q", out)
	}
	if out := b.Must("rm", id); strings.TrimSpace(out) != id {
		t.Errorf("rm gave %q", out)
	}
	if r := b.Try("show", id); r.Code != 202 {
		t.Errorf("show of a removed run: %+v", r)
	}
}

// TestTwoRunsOfOneName: none is ended or forgotten by guessing which is meant.
func TestTwoRunsOfOneName(t *testing.T) {
	b, job := busyboxJob(t, "run: 'sleep 1000'")
	first, second := strings.TrimSpace(b.Must("run", "-d", job)), strings.TrimSpace(b.Must("run", "-d", job))
	for _, args := range [][]string{{"stop", "small"}, {"rm", "-f", "small"}, {"checkpoint", "small"}, {"stop", ""}, {"stop", "--all", first}} {
		if r := b.Try(args...); r.Code != 201 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if out := b.Must("ps", "-q"); len(strings.Fields(out)) != 2 {
		t.Errorf("live runs: %q", out)
	}
	b.Must("stop", second)
	if r := b.Try("stop", "small"); r.Code != 0 || !strings.Contains(r.Stderr, first+": stopped") { // not the newer one, which is over
		t.Errorf("stop by name: %+v", r)
	}
	third := strings.TrimSpace(b.Must("run", "-d", job))
	if out := b.Must("rm", "-f", third, first); out != first+"\n"+third+"\n" {
		t.Errorf("rm -f gave %q", out)
	}
	if out := strings.TrimSpace(b.Must("ps", "-aq")); out != second {
		t.Errorf("there are %q, want %s", out, second)
	}
}

// TestBackgroundRunsHoldNoFilesOfTheirCaller: a script may hold a lock by a
// file that all its children inherit.
func TestBackgroundRunsHoldNoFilesOfTheirCaller(t *testing.T) {
	b, job := busyboxJob(t, "run: 'echo up; sleep 100'")
	sites := b.File("sites.yaml", "sites: [{name: lab, provider: local, hosts: 1}]\n")
	lock := b.File("lock", "")
	f, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	c := b.Command("--sites", sites, "run", "-d", job)
	c.ExtraFiles = []*os.File{f}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	testkit.Eventually(t, 20*time.Second, func() error {
		if b.Must("logs", id) != "up\n" {
			return os.ErrNotExist
		}
		return nil
	})
	f.Close() // the lock is free unless another user holds the file
	if f, err = os.Open(lock); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("while the run continues, its caller's lock is held: %v", err)
	}
	b.Must("stop", id)
}

func TestStopEndsARunCleanlyAndKeepsItsOutputs(t *testing.T) {
	b, job := busyboxJob(t, "run: 'trap \"echo stopped >/work/state; exit 3\" TERM; echo up >/work/state; echo ready; sleep 100 & wait'",
		"outputs: [{from: /work/state, to: ./results}]")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 20*time.Second, func() error {
		if b.Must("logs", id) != "ready\n" {
			return os.ErrNotExist
		}
		return nil
	})
	b.Must("stop", id)
	if v := b.Await(id, 10*time.Second); v.State != "stopped" {
		t.Errorf("got %+v", v)
	}
	if got := b.Read("results/state"); got != "stopped\n" {
		t.Errorf("the output holds %q", got)
	}
}

// TestShowTellsOfARunThatGoesOn: what has started its containers, and how long that took.
func TestShowTellsOfARunThatGoesOn(t *testing.T) {
	b, job := busyboxJob(t, "setup: 'true'", "run: sleep 1000")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 30*time.Second, func() error {
		var r testkit.RunView
		b.JSON(&r, "show", "--json", id)
		if len(r.Attempts) != 1 || r.State != "running" {
			return errors.New("it does not run yet")
		}
		a := r.Attempts[0]
		for _, phase := range []string{"launch", "start", "setup"} {
			if _, reported := a.Phases[phase]; !reported || a.Runtime != "rootless" {
				return fmt.Errorf("runtime %q, phases %v", a.Runtime, a.Phases)
			}
		}
		return nil
	})
	b.Must("stop", id)
}
