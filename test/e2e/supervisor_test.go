package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// counting waits until a run's command has begun.
func counting(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "log"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
}

// TestOneProcessCarriesAllDetachedRuns, as long as their environment is the
// same; when it is killed, `bee supervise` has them all continued.
func TestOneProcessCarriesAllDetachedRuns(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "run: 'touch log; while [ ! -e go ]; do sleep 0.1; done; echo done > end'", "volume: /data", "workdir: /data", "outputs: [{from: /data/end, to: './results/${run.id}'}]")
	b.Oversubscribe()
	var ids []string
	for range 3 {
		ids = append(ids, strings.TrimSpace(b.Must("run", "-d", job)))
	}
	for _, id := range ids {
		counting(t, b, id)
	}
	first := testkit.AwaitControllers(t, b, 1)
	// Another environment may mean other secrets, and another way to a site.
	b.Env = append(b.Env, "SSH_AUTH_SOCK=/elsewhere")
	other := strings.TrimSpace(b.Must("run", "-d", job))
	counting(t, b, other)
	testkit.AwaitControllers(t, b, 2)
	b.Must("stop", other)
	if v := b.Await(other, 20*time.Second); v.State != "stopped" {
		t.Errorf("the one that was stopped: %+v", v)
	}
	for _, id := range ids {
		if r := b.Try("show", id); !strings.Contains(r.Stdout, "running") {
			t.Errorf("another run ended with it:\n%s", r.Stdout)
		}
	}
	testkit.AwaitControllers(t, b, 1)
	testkit.Kill(first[0])
	testkit.AwaitControllers(t, b, 0)
	b.Must("supervise")
	if again := testkit.AwaitControllers(t, b, 1); again[0] == first[0] {
		t.Error("it was not killed")
	}
	for _, id := range ids {
		b.Touch(id, "go")
	}
	for _, id := range ids {
		if v := b.Await(id, 30*time.Second); v.State != "succeeded" || len(v.Attempts) != 1 {
			t.Errorf("run %s: %+v\n%s", id, v, b.Try("logs", "--controller", id).Stdout)
		}
	}
	testkit.AwaitControllers(t, b, 0)
}

// TestABackgroundRunIsTriedAgainByItself: its results find no room; once they
// do, they are collected without anybody's doing.
func TestABackgroundRunIsTriedAgainByItself(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, doneOnceBlocked, "volume: /data", "workdir: /data", "outputs: [{from: /data/end, to: ./results/sub}]")
	id := blocked(t, b, job, "results")
	testkit.Eventually(t, 30*time.Second, func() error {
		if testkit.Events(b, id, event.KindCollectFailed) == 0 {
			return b.Explained(id, "its outputs are collected, or not yet")
		}
		return nil
	})
	if err := os.Remove(b.Work + "/results"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 60*time.Second, func() error { // no bee command meanwhile
		_, err := os.Stat(b.Work + "/results/sub/end")
		return err
	})
	if v := b.Await(id, 20*time.Second); v.State != "succeeded" {
		t.Errorf("the run: %+v", v)
	}
}

// TestARunOfAnotherMachinesIsStopped: where several share the state, the process that
// carries a run cannot be sent a signal, and its number may be a stranger's here.
func TestARunOfAnotherMachinesIsStopped(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "run: 'touch log; sleep 600'", "volume: /data", "workdir: /data")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	counting(t, b, id)
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	defer func() { stranger.Process.Kill(); <-ended }() //nolint:errcheck // it was killed
	lock := b.Dir + "/state/runs/" + id + "/lock"
	if err := os.WriteFile(lock, fmt.Appendf(nil, "%d 1 another-boot\nlogin2\n", stranger.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.Try("stop", id); r.Code != 0 || !strings.Contains(r.Stderr, " login2") {
		t.Errorf("%+v", r)
	}
	if v := b.Await(id, 20*time.Second); v.State != "stopped" {
		t.Errorf("the run: %+v", v)
	}
	select {
	case err := <-ended:
		ended <- err
		t.Errorf("the stranger ended: %v", err)
	default:
	}
}
