package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// steadyCounter writes its own checkpoint at every step, as many codes do.
const steadyCounter = `|
  n=$(cat state 2>/dev/null || echo 0); echo "from $n" >> log
  while [ $n -lt 80 ]; do n=$((n+1)); sleep 0.25
    [ $((n % 12)) = 0 ] && { echo $n > state.new; mv state.new state; }
    [ -e STOP ] && { echo $n > state; exit 0; }
  done
  echo $n > done`

// TestALostHostCostsLittle: a copy is kept while the job runs, and the run goes
// on from it when its first host is gone.
func TestALostHostCostsLittle(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 3s, every: 2s, paths: [/work/state]}", "outputs: [{from: /work/*, to: results}]", "run: "+steadyCounter)
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, hosts: 2}\n  - {name: two, provider: local}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	testkit.Eventually(t, 60*time.Second, func() error {
		var v struct{ Checkpoints []struct{ Files int } }
		b.JSON(&v, "show", "--json", id)
		if len(v.Checkpoints) == 0 {
			return b.Explained(id, "no checkpoint is at home")
		}
		return nil
	})
	b.Must("emulate", "kill", id, "0")
	v := b.Await(id, 90*time.Second)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[1].Site != "two" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "80\n" {
		t.Errorf("attempts began %q", log)
	}
}

// TestAskedByCommandOrFile: the two ways to have a job write its checkpoint that are no
// signals. Neither is left over for the next attempt.
func TestAskedByCommandOrFile(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]string{"file": "file: /work/STOP", "command": "command: 'touch /work/STOP; sleep 1'"} {
		t.Run(name, func(t *testing.T) {
			run := steadyCounter
			if name == "command" {
				run = strings.Replace(run, "echo \"from", "rm -f STOP; echo \"from", 1)
			}
			b, job := busyboxJob(t, "workdir: /work", fmt.Sprintf("checkpoint: {grace: 5s, %s}", how), "outputs: [{from: /work/*, to: results}]", "run: "+run)
			id := strings.TrimSpace(b.Must("run", "-d", job))
			begun(t, b, id)
			time.Sleep(time.Second) // in which it counts
			var asked struct{ ID, State string }
			if b.JSON(&asked, "move", "--json", id); asked.ID != id || asked.State != "running" {
				t.Errorf("move tells %+v", asked)
			}
			v := b.Await(id, time.Minute)
			if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Phases["checkpoint"] == 0 {
				t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
			}
			if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "80\n" {
				t.Errorf("attempts began %q", log)
			}
		})
	}
}

// TestAJobThatDiesOfTheSignalWroteNothing: only files of a checkpoint that changed show
// that it wrote one. A log that grew does not.
func TestAJobThatDiesOfTheSignalWroteNothing(t *testing.T) {
	t.Parallel()
	const (
		begin  = "echo begun >> log; [ $(wc -l <log) = 1 ] || exit 0; "
		forget = begin + "while :; do echo more >> other; sleep 0.1; done"
		write  = begin + `trap 'echo done > state; trap - TERM; kill -TERM $$' TERM; while :; do sleep 0.1; done`
	)
	for name, c := range map[string]struct{ checkpoint, run, answer, state string }{
		"without paths":            {"{grace: 5s}", forget, "died", "succeeded"},
		"paths that do not change": {"{grace: 5s, paths: [/work/log]}", forget, "died", "succeeded"},
		"paths that are not there": {"{grace: 5s, paths: [/work/state]}", strings.ReplaceAll(forget, "[ $", "[ ! -e again ] && [ $"), "nothing", "failed"},
		"raised again":             {"{grace: 5s, paths: [/work/state]}", write, "wrote", "succeeded"},
		"without paths, by USR1":   {"{grace: 5s, signal: USR1}", forget, "died", "succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, job := busyboxJob(t, "workdir: /work", "checkpoint: "+c.checkpoint, "outputs: [{from: /work/*, to: results}]", "run: |\n  "+c.run)
			id := strings.TrimSpace(b.Must("run", "-d", job))
			begun(t, b, id)
			b.Must("move", id)
			v := b.Await(id, time.Minute)
			if v.State != c.state || len(v.Attempts) == 0 || v.Attempts[0].Answer != c.answer {
				t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
			}
		})
	}
}

// TestACheckpointWhileTheJobGoesOn: one is taken and is collected, twice, and it is the same
// process that continues; a run that is moved then goes to the site that its user names.
func TestACheckpointWhileTheJobGoesOn(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 30s, command: 'touch ask; while [ -e ask ]; do sleep 0.1; done', paths: [/work/state]}",
		"outputs: [{from: /work/log, to: results}]", `run: |
  n=$(cat state 2>/dev/null || echo 0); echo "from $n" >> log
  until [ -e enough ]; do n=$((n+1)); sleep 0.1; [ ! -e ask ] || { echo $n > state; rm ask; }; done
  echo "until $n" >> log`)
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local}\n  - {name: two, provider: local}\n  - {name: three, provider: local}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	begun(t, b, id)
	last := ""
	for range 2 {
		if r := b.Try("checkpoint", "--json", id); r.Code != 0 || !strings.Contains(r.Stdout, `"goes_on": true`) {
			t.Fatalf("it says %+v", r)
		}
		testkit.Eventually(t, time.Minute, func() error {
			var v struct {
				State       string
				Attempts    []struct{}
				Checkpoints []struct {
					Attempt int
					Path    string
				}
			}
			b.JSON(&v, "show", "--json", id)
			if len(v.Checkpoints) == 0 || v.State != "running" || len(v.Attempts) != 1 {
				return fmt.Errorf("no checkpoint is at home: %+v", v)
			}
			c := v.Checkpoints[len(v.Checkpoints)-1]
			raw, err := os.ReadFile(filepath.Join(c.Path, "state"))
			if err != nil || string(raw) == last || c.Attempt != 1 {
				return fmt.Errorf("the newest checkpoint is %+v, its state %q, %w", c, raw, err)
			}
			last = string(raw)
			return nil
		})
	}
	if log := b.Must("exec", id, "--", "cat", "/work/log"); strings.Count(log, "from") != 1 || strings.Contains(log, "until") {
		t.Fatalf("it did not go on: %s", log)
	}
	b.Must("--sites", sites, "move", "--site", "three", id)
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "sh", "-c", "test $(wc -l </work/log) = 2"); r.Code != 0 {
			return b.Explained(id, r.Stderr)
		}
		return nil
	})
	if f := b.Fail("--sites", sites, "move", "--site", "three", id); f.Kind != "invalid" || !strings.Contains(f.Message, "site three") {
		t.Errorf("moved to where it is: %+v", f)
	}
	b.Touch(id, "/work/enough")
	v := b.Await(id, time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Site != "one" || v.Attempts[1].Site != "three" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\n") || strings.Count(log, "from 0\n") != 1 {
		t.Errorf("attempts began %q", log)
	}
}

// TestARunIsSuspendedAndResumed: its only site is gone for good; with another
// one it continues where it was.
func TestARunIsSuspendedAndResumed(t *testing.T) {
	t.Parallel()
	b, farm, job := rack(t, 1, "workdir: /work", "checkpoint: {grace: 3s}", "wait: 1ms", "outputs: [{from: /work/*, to: results}]", "run: "+counter)
	sites := b.File("slot.yaml", strings.Replace(b.Read("sites.yaml"), "slots: 2}", "slots: 2, slot: 17s}", 1))
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	testkit.Eventually(t, 60*time.Second, func() error {
		var v struct {
			Checkpoints []struct{ Files int }
			Attempts    []struct{ Site string }
		}
		b.JSON(&v, "show", "--json", id)
		if len(v.Checkpoints) == 0 || len(v.Attempts) < 2 { // until then outputs are collected, for which the host is waited
			return b.Explained(id, "no checkpoint is at home")
		}
		return nil
	})
	if err := farm.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 4*time.Minute, func() error {
		var v testkit.RunView
		b.JSON(&v, "show", "--json", id)
		shown := b.Must("show", id)
		if v.State == "running" && testkit.Events(b, id, event.KindUnreachable, `"site":"rack"`) > 0 {
			b.Try("resume", "--site-lost", id) // the next attempt was launched already, which would be waited for
		} else if v.State == "suspended" {
			return nil
		}
		return errors.New(shown)
	})
	if v := b.Await(id, 0); v.State != "suspended" || v.Error == nil || !strings.Contains(v.Error.Remedy, "bee resume "+id) {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	both := b.File("both.yaml", b.Read("slot.yaml")+"  - {name: laptop, provider: local}\n")
	held, err := os.OpenFile(filepath.Join(b.Dir, "state", "runs", id, "lock"), os.O_RDWR, 0)
	if err == nil {
		err = unix.Flock(int(held.Fd()), unix.LOCK_EX) // as a controller that looks once more after the lost site
	}
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(4*time.Second, func() { held.Close() })
	if r := b.Try("--sites", both, "resume", "--site", "laptop", id); r.Code != 0 || !strings.Contains(r.Stderr, "being removed") {
		t.Fatalf("got %+v", r)
	}
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || v.Attempts[len(v.Attempts)-1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	t.Log("\n" + b.Must("show", id))
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
}

// TestAJobWithoutACheckpointIsToldOfItsSlot before it runs, and what can be done
// once it was ended by it.
func TestAJobWithoutACheckpointIsToldOfItsSlot(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "run: 'echo begun; sleep 100'")
	sites := b.File("sites.yaml", "sites:\n  - {name: short, provider: local, slot: 22s}\n")
	if text := b.Must("--sites", sites, "plan", job); !strings.Contains(text, "`checkpoint:`") || !strings.Contains(text, "short") {
		t.Errorf("the plan: %s", text)
	}
	var list []struct {
		NoCheckpoint bool `json:"no_checkpoint"`
	}
	if b.JSON(&list, "--sites", sites, "plan", "--json", job); len(list) != 1 || !list[0].NoCheckpoint {
		t.Errorf("the plan: %+v", list)
	}
	r := b.Try("--sites", sites, "run", job)
	if r.Code != 206 || !strings.Contains(r.Stderr, " 22s, ") {
		t.Errorf("got %+v", r)
	}
	for _, remedy := range []string{"`checkpoint:`", "docs/how-to/checkpoints.md", "`slot`"} {
		if !strings.Contains(r.Stderr, remedy) {
			t.Errorf("no remedy names %s: %s", remedy, r.Stderr)
		}
	}
}

// TestACheckpointThatItsJobForestalls: no user reads that a job continues which has ended.
func TestACheckpointThatItsJobForestalls(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {every: 1h, grace: 30s}", "outputs: [{from: /work/n, to: results}]",
		"run: 'n=0; while [ $n -lt 40 ]; do n=$((n+1)); echo $n >n; sleep 0.1; done'")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/work/n"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	if f := b.Fail("checkpoint", id); f.Code != 205 || f.Kind != "transient" || !strings.HasPrefix(f.Remedy, "`bee show "+id+"`") {
		t.Errorf("got %+v", f)
	}
}
