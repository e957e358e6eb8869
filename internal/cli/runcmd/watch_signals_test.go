package runcmd

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestARunInTheForegroundSeesAStopThatIsOnlyWrittenDown; the signal of the same command
// that comes late is no second one.
func TestARunInTheForegroundSeesAStopThatIsOnlyWrittenDown(t *testing.T) {
	store := runrecords.Open(t, t.TempDir(), state.Run{ID: "aaaa1111", State: state.Running})
	w := workspace.New(io.Discard, io.Discard, "0.1.0")
	s := &workspace.Session{Controller: &control.Controller{Runner: control.Runner{Store: store}}, Workspace: w}
	ctx, stop, done := watchSignals(t.Context(), s, "aaaa1111", console.NewProgress(w.Console, true))
	defer done()
	select {
	case <-stop:
		t.Fatal("it ends though nobody has asked for it")
	default:
	}
	if err := store.Requests().AskStop(t.Context(), "aaaa1111"); err != nil {
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
