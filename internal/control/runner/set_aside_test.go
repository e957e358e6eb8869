package runner

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// panickingHead has its controller panic, in the goroutine that makes a call.
type panickingHead struct {
	*controltest.Head
	call string
}

func (h panickingHead) at(call string) {
	if h.call == call {
		var hosts []core.Host
		_ = hosts[len(call)]
	}
}

func (h panickingHead) Addresses(ctx context.Context) ([]string, error) {
	h.at("addresses")
	return h.Head.Addresses(ctx)
}

func (h panickingHead) Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error {
	h.at("watch")
	if h.call != "" { // what panics elsewhere ends the wait for the head
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Head.Watch(ctx, after, fn)
}

func (h panickingHead) Output(ctx context.Context, offset int64, follow bool, fn func(tasklog.Frame) error) error {
	h.at("output")
	return h.Head.Output(ctx, offset, follow, fn)
}

func TestAPanicSetsTheRunAside(t *testing.T) {
	for _, call := range []string{"addresses", "watch", "output"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t, "a")
			w.Output = func(tasklog.Frame) error { return nil }
			dialled := 0
			w.Connect = func(c net.Conn) (headlink.Head, error) {
				dialled++
				return panickingHead{c.(*controltest.Conn).Site.Head, call}, nil
			}
			run := w.submit(t)
			got := w.drive(t, run, nil)
			if got.State != state.SetAside || !strings.Contains(got.Message, "index out of range") || got.Remedy == "" {
				t.Fatalf("got %+v", got)
			}
			stack, err := os.ReadFile(StackPath(w.Store.RunDir(run.ID)))
			if err != nil || !strings.Contains(string(stack), "panickingHead") {
				t.Errorf("the stack: %s, %v", stack, err)
			}
			if last, is, err := w.Store.History().Last(t.Context(), run.ID); err != nil || !is || !last.Is(event.KindSetAside) {
				t.Errorf("the last event: %+v, %v, %v", last, is, err)
			}
			// It stays so, and no command starts a controller for it.
			dialled = 0
			if again := w.drive(t, run, nil); again.State != state.SetAside || dialled > 0 {
				t.Errorf("another controller: %+v, %d calls", again, dialled)
			}
			if ids, err := w.Garbage().Orphans(t.Context()); err != nil || len(ids) > 0 {
				t.Errorf("orphans: %v, %v", ids, err)
			}
			if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
				t.Fatal(err)
			}
			if ids, err := w.Store.Requests().Stopping(t.Context()); err != nil || len(ids) != 1 {
				t.Errorf("to be stopped: %v, %v", ids, err)
			}
			if over := w.drive(t, run, nil); over.State != state.Stopped || dialled > 0 {
				t.Errorf("stopped: %+v, %d calls", over, dialled)
			}
			w.nothingHeld(t)
		})
	}
}

// TestAnImpossiblePairSetsTheRunAside has an event that the table calls impossible come.
func TestAnImpossiblePairSetsTheRunAside(t *testing.T) {
	w := newWorld(t, "a")
	w.reached = func(s state.AttemptState, _ state.Autostart, e machinery.Event) {
		if s == state.Starting && e == machinery.TaskBegins {
			(&record{of: control(w.Runner, state.Run{}, submission.Submission{}), Attempt: state.Attempt{State: s}}).on(machinery.Collected)
		}
	}
	w.sites["a"].Head = controltest.Events(protocol.Result{Exit: &core.Exit{}, Outputs: []protocol.OutputMatch{}})
	run := w.submit(t)
	got := w.drive(t, run, nil)
	if got.State != state.SetAside || !strings.Contains(got.Message, string(state.Starting)) || !strings.Contains(got.Message, string(machinery.Collected)) {
		t.Fatalf("got %+v, want one that is set aside and names both", got)
	}
	stack, err := os.ReadFile(StackPath(w.Store.RunDir(run.ID)))
	if err != nil || !strings.Contains(string(stack), "(*record).on") {
		t.Errorf("the stack: %s, %v", stack, err)
	}
	if attempts := w.attempts(t, run); len(attempts) != 1 || attempts[0].State != state.Starting {
		t.Errorf("the state on record: %+v", attempts)
	}
}

// TestARunThatWasSetAsideIsResumed, once what its controller could not do can be done.
func TestARunThatWasSetAsideIsResumed(t *testing.T) {
	w := newWorld(t, "a")
	call := "watch"
	w.Connect = func(c net.Conn) (headlink.Head, error) {
		return panickingHead{c.(*controltest.Conn).Site.Head, call}, nil
	}
	run := w.drive(t, w.submit(t), nil)
	call = ""
	journal(t, w.sites["a"].Dir, protocol.Event{Seq: 1, Phase: core.PhaseRun, Begin: true})
	run, err := w.Resume(t.Context(), run, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.drive(t, run, nil); got.State != state.Succeeded || got.Message != "" {
		t.Errorf("got %+v", got)
	}
	if attempts, err := w.Store.Attempts(t.Context(), run.ID); err != nil || len(attempts) != 1 {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
	w.nothingHeld(t)
}

// panickingSite panics when its leases are asked for.
type panickingSite struct{ *controltest.Site }

func (s panickingSite) Recover(context.Context, core.Handle) (driver.Lease, error) {
	panic("no such lease")
}

// TestARecordThatDoesNotParse sets its run aside; the other runs are listed and continue, and
// it can be ended and forgotten.
func TestARecordThatDoesNotParse(t *testing.T) {
	for _, damage := range []string{"record='{'", "lease='{\"driver\":7}'", "record='{\"hosts\":{}}'", "started='soon', record=x'00ff'"} {
		t.Run(damage, func(t *testing.T) {
			w := newWorld(t, "a")
			w.sites["a"].Head = controltest.Events(protocol.Result{Kind: core.Stopped.String()})
			run := w.submit(t)
			ctx, cancel := context.WithCancel(t.Context())
			w.Report = func(e protocol.Event) {
				if e.Begin && e.Phase == core.PhaseRun {
					cancel()
				}
			}
			w.Drive(ctx, run.ID, nil) //nolint:errcheck // its controller ends, and it continues
			w.Report = func(protocol.Event) {}
			if err := w.Store.Exec(t.Context(), "UPDATE attempts SET "+damage); err != nil {
				t.Fatal(err)
			}
			other := w.submit(t)
			w.sites["a"].Head = controltest.Succeeding()
			if got := w.drive(t, other, nil); got.State != state.Succeeded {
				t.Errorf("another run: %+v", got)
			}
			if ids, err := w.Garbage().Orphans(t.Context()); err != nil {
				t.Errorf("orphans: %v, %v", ids, err)
			}
			if got := w.drive(t, run, nil); got.State != state.SetAside || got.Remedy == "" {
				t.Fatalf("got %+v", got)
			}
			if list, err := w.Store.Runs(t.Context(), state.Filter{Active: true}); err != nil || len(list) != 1 {
				t.Errorf("runs that are not over: %+v, %v", list, err)
			}
			if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
				t.Fatal(err)
			}
			got := w.drive(t, run, nil)
			if got.State != state.Stopped {
				t.Errorf("stopped: %+v", got)
			}
			w.nothingHeld(t)
			if err := w.Garbage().Forget(t.Context(), got, gc.Leaving{}); err != nil {
				t.Errorf("forget it: %v", err)
			}
		})
	}
}

// TestARunWhoseSitePanicsIsForgotten by force, although what it has there cannot be had.
func TestARunWhoseSitePanicsIsForgotten(t *testing.T) {
	w := newWorld(t, "a")
	w.sites["a"].Head = controltest.Exiting(0)
	w.sites["a"].ReleaseErrors = []error{nil}
	w.Connect = func(c net.Conn) (headlink.Head, error) {
		return panickingHead{c.(*controltest.Conn).Site.Head, "watch"}, nil
	}
	run := w.drive(t, w.submit(t), nil)
	provider := w.Provider
	w.Provider = func(s spec.Site) (driver.Provider, error) {
		p, err := provider(s)
		return panickingSite{p.(*controltest.Site)}, err
	}
	if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if run = w.drive(t, run, nil); run.State != state.Stopped {
		t.Fatalf("stopped: %+v", run)
	}
	w.lock.Unlock()
	if err := w.Garbage().Forget(t.Context(), run, gc.Leaving{}); !core.IsKind(err, core.Busy) {
		t.Errorf("without force: %v", err)
	}
	if err := w.Garbage().Forget(t.Context(), run, gc.Leaving{Sites: true}); err != nil {
		t.Errorf("by force: %v", err)
	}
	if _, err := w.Store.Run(t.Context(), run.ID); !core.IsKind(err, core.NotFound) {
		t.Errorf("its record: %v", err)
	}
}
