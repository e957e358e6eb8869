package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// counter is a job that writes its checkpoint when it is asked to end.
const counter = `|
  n=$(cat state 2>/dev/null || echo 0)
  trap 'echo $n > state.new; mv state.new state; exit 85' TERM
  echo "from $n" >> log
  while [ $n -lt 60 ]; do n=$((n+1)); sleep 0.25; done
  echo $n > done`

// TestARunMovesFromSlotToSlot: no slot is long enough for the job.
func TestARunMovesFromSlotToSlot(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "inputs: [{from: input, to: /work/}]", "checkpoint: {grace: 3s, paths: [/work/state]}", "setup: echo once >> log",
		"outputs: [{from: /work/*, to: results}]", "run: "+counter)
	b.File("input", "given\n")
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, slot: 19s}\n  - {name: two, provider: local, hosts: 2, slot: 19s}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) < 2 || v.Attempts[0].Site != "one" || v.Attempts[1].Site != "two" {
		t.Fatalf("the run: %+v", v)
	}
	text := b.Must("show", id)
	for _, want := range []string{" 19.0s; ", " 13.0s ", "`grace` of 3s", " computing ("} {
		if !strings.Contains(text, want) {
			t.Errorf("it is shown without %q, as\n%s", want, text)
		}
	}
	if testkit.Events(b, id, event.KindMoved, `"site":"one"`) == 0 {
		t.Errorf("the first move is not in its history:\n%s", text)
	}
	allNamed(t, b, id)
	if got := b.Read("results/done"); got != "60\n" {
		t.Errorf("it counted to %q", got)
	}
	if got := b.Read("results/input"); got != "given\n" {
		t.Errorf("the input became %q", got)
	}
	log := strings.Split(strings.TrimSpace(b.Read("results/log")), "\n")
	if len(log) != len(v.Attempts)+1 || log[0] != "once" || log[1] != "from 0" || log[2] == "from 0" {
		t.Errorf("attempts began %q", log)
	}
}

// TestALostAttemptGoesOnFromTheLastCheckpoint kills the second attempt.
func TestALostAttemptGoesOnFromTheLastCheckpoint(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]", "run: "+counter)
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, slot: 19s}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		r := b.Try("exec", id, "--", "cat", "/work/state", "/work/log")
		if r.Code != 0 || strings.Count(r.Stdout, "from ") < 2 {
			return errors.New("the second attempt does not run yet: " + r.Stdout + r.Stderr)
		}
		return nil
	})
	for _, p := range b.Processes() {
		pid, command, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil && strings.HasSuffix(strings.TrimSpace(command), " node") {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) < 3 {
		t.Fatalf("the run: %+v", v)
	}
	log := b.Read("results/log")
	if strings.Count(log, "from 0\n") != 1 || b.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
}

func TestAJobThatSavesNothingDoesNotGoRound(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 1s}", "run: sleep 1000")
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, slot: 12s}\n")
	r := b.Try("--sites", sites, "run", "-q", job)
	if r.Code == 0 || testkit.Events(b, "small", event.KindSuspended, `"reason":"no_progress"`) != 1 {
		t.Errorf("it ended with %+v\n%s", r, b.Must("show", "small"))
	}
}

func TestACheckpointNow(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]", "run: "+counter)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/work/log"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	time.Sleep(time.Second) // in which it counts
	b.Must("checkpoint", id)
	v := b.Await(id, time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v", v)
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
	other := b.File("other.yaml", "image: "+strings.TrimSpace(strings.Split(strings.Split(b.Read("job.yaml"), "image: ")[1], "\n")[0])+"\nrun: sleep 1000\n")
	id = strings.TrimSpace(b.Must("run", "-d", other))
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("exec", id, "--", "true"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	if r := b.Try("checkpoint", id); r.Code == 0 || !strings.Contains(r.Stderr, "checkpoint:") {
		t.Errorf("a job that cannot save itself: %+v", r)
	}
	b.Must("stop", id)
}

// TestLogsGoOnAcrossACheckpoint: what was printed before it stays in sight, while
// the run continues and afterwards, and a reader who follows misses nothing.
func TestLogsGoOnAcrossACheckpoint(t *testing.T) {
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 3s}", `run: |
  trap 'echo saved | tee state; exit 85' TERM
  if [ -e state ]; then echo "second part"; else echo "first part"; fi
  while [ ! -e enough ]; do sleep 0.1; done`)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	says := func(want string) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			if r := b.Try("logs", id); r.Stdout != want {
				return fmt.Errorf("it said %q, want %q %s", r.Stdout, want, r.Stderr)
			}
			return nil
		})
	}
	says("first part\n")
	var followed strings.Builder
	follow := b.Command("logs", "-f", id)
	follow.Stdout = &followed
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { follow.Process.Kill() })
	b.Must("checkpoint", id)
	const all = "first part\nsaved\nsecond part\n"
	says(all)
	b.Touch(id, "enough")
	if v := b.Await(id, time.Minute); v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v", v)
	}
	says(all)
	if err := follow.Wait(); err != nil || followed.String() != all {
		t.Errorf("followed, it said %q, %v", followed.String(), err)
	}
	if out := b.Must("logs", "--attempt", "2", id); out != "second part\n" {
		t.Errorf("its second attempt said %q", out)
	}
}
