package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// asElsewhere has the lock of a run say that a process of another machine has it.
func (d *desk) asElsewhere(id string) {
	d.t.Helper()
	path := filepath.Join(d.store.RunDir(id), "lock")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d 1 another\nlogin2\n", os.Getpid()), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// TestStopSaysThatItIsAskedElsewhere, and starts no controller here.
func TestStopSaysThatItIsAskedElsewhere(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running})
	controller, err := d.store.Locks().Acquire("aaaa1111")
	if err != nil {
		t.Fatal(err)
	}
	defer controller.Unlock()
	d.asElsewhere("aaaa1111")
	if err := d.bee("stop", "--no-wait", "pi"); err != nil || !strings.Contains(d.err.String(), "its controller on host login2") {
		t.Errorf("%v, and it says %q", err, d.err.String())
	}
	if run, err := d.store.Run(t.Context(), "aaaa1111"); err != nil || !run.StopAsked {
		t.Errorf("nothing was asked: %+v, %v", run, err)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "s", "controllers.log")); err == nil {
		t.Error("a controller was started here")
	}
}

// TestARunInTheForegroundSeesAStopThatIsOnlyWrittenDown; the signal of the same command
// that comes late is no second one.
func TestARunInTheForegroundSeesAStopThatIsOnlyWrittenDown(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", State: state.Running})
	a := newApp(&bytes.Buffer{}, &bytes.Buffer{})
	s := &workspace.Session{Controller: &control.Controller{Store: d.store}, Workspace: a.Workspace}
	ctx, stop, done := watchSignals(t.Context(), s, "aaaa1111", console.NewProgress(a.Console, true))
	defer done()
	select {
	case <-stop:
		t.Fatal("it ends though nobody has asked for it")
	default:
	}
	if err := d.store.Requests().AskStop(t.Context(), "aaaa1111"); err != nil {
		t.Fatal(err)
	}
	<-stop
	send := func(signal os.Signal) {
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = p.Signal(signal)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	send(syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond) // that it is obeyed cannot be seen
	if ctx.Err() != nil {
		t.Fatalf("it has left: %v", context.Cause(ctx))
	}
	send(syscall.SIGINT)
	testkit.Eventually(t, 10*time.Second, func() error {
		if ctx.Err() == nil {
			return errors.New("a second signal is not heeded")
		}
		return nil
	})
}
