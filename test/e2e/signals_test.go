package e2e

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// ended waits, without any further bee command, until nothing of a bee runs any more.
func ended(t *testing.T, b *testkit.Bee) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		if p := b.Processes(); len(p) > 0 {
			return errors.New("it still runs: " + strings.Join(p, "\n"))
		}
		return nil
	})
}

func state(t *testing.T, b *testkit.Bee, id string) string {
	t.Helper()
	var v testkit.RunView
	b.JSON(&v, "show", "--json", id)
	return v.State
}

// TestSignalsOfOneSenderAreOne: timeout(1) signals its child, and then the group that it
// leads, the child included.
func TestSignalsOfOneSenderAreOne(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"TERM", "INT"} {
		t.Run(signal, func(t *testing.T) {
			t.Parallel()
			b, job := busyboxJob(t, "run: 'trap \"sleep 1; echo saved; exit 0\" TERM; echo begun; while :; do sleep 0.1; done'", "checkpoint: {grace: 10s}")
			bee := b.Command("run", "-q", job)
			var out strings.Builder
			c := exec.Command(testkit.RequireTool(t, "timeout"), append([]string{"-s", signal, "4"}, bee.Args...)...)
			c.Dir, c.Env, c.Stdout = bee.Dir, bee.Env, &out
			c.Run() //nolint:errcheck // 124
			ended(t, b)
			if id := strings.TrimSpace(b.Must("ps", "-aq")); state(t, b, id) != "stopped" {
				t.Errorf("the run is %s", state(t, b, id))
			}
			if out.String() != "begun\nsaved\n" {
				t.Errorf("whoever waited for the run has seen %q", out.String())
			}
		})
	}
}

// TestWhoLeavesARunThatComputesLeavesASupervisor, which stops it: no further command of
// bee's has to come.
func TestWhoLeavesARunThatComputesLeavesASupervisor(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "run: 'trap \"echo asked\" TERM; echo begun; while :; do sleep 0.1; done'", "checkpoint: {grace: 10s}")
	c := b.Command("run", "-q", job)
	var out strings.Builder
	c.Stdout, c.SysProcAttr = &out, &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	id := ""
	printed := func(want string) {
		t.Helper()
		testkit.Eventually(t, 30*time.Second, func() error {
			if id = strings.TrimSpace(b.Must("ps", "-q")); id == "" || b.Must("logs", id) != want {
				return errors.New("it has not printed " + want)
			}
			return nil
		})
	}
	printed("begun\n")
	c.Process.Signal(syscall.SIGINT)
	printed("begun\nasked\n")
	left := make(chan error, 1)
	go func() { left <- c.Wait() }()
	testkit.Eventually(t, 5*time.Second, func() error { // those that come at once count as one
		c.Process.Signal(syscall.SIGINT)
		select {
		case err := <-left:
			if c.ProcessState.ExitCode() != 207 {
				t.Fatalf("it ended with %v", err)
			}
			return nil
		case <-time.After(300 * time.Millisecond):
			return errors.New("the second one did not have it leave at once")
		}
	})
	if len(b.Processes()) == 0 {
		t.Error("nothing was left to be supervised: this test shows nothing")
	}
	ended(t, b)
	if got := state(t, b, id); got != "stopped" {
		t.Errorf("the run is %s", got)
	}
}
