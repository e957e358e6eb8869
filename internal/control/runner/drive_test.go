package runner

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

func TestHowRunsEnd(t *testing.T) {
	transient := &core.Error{Kind: core.Transient, Err: errors.New("not now")}
	for _, c := range []struct {
		name  string
		set   func(w *world)
		state state.RunState
		exit  int // -1: none
		says  string
		sites string // that made attempts, in order
	}{
		{"success", func(*world) {}, state.Succeeded, 0, "", "a"},
		{"the task's own failure", func(w *world) { w.sites["a"].Head = controltest.Exiting(7) }, state.Failed, 7, "exit code 7", "a"},
		{"a task that a signal ended", func(w *world) { w.sites["a"].Head = controltest.Exiting(139) }, state.Failed, 139, "SIGSEGV", "a"},
		{"a high code that is no signal's", func(w *world) { w.sites["a"].Head = controltest.Exiting(250) }, state.Failed, 250, "exit code 250", "a"},
		{"an unusable site is passed over", func(w *world) { w.sites["a"].Facts = driver.Facts{Reason: "closed"} }, state.Succeeded, 0, "", "b"},
		{"so is one that grants nothing now", func(w *world) { w.sites["a"].AcquireError = transient }, state.Succeeded, 0, "", "a b"},
		{"and one whose nodes do not start", func(w *world) { w.sites["a"].LaunchError = transient }, state.Succeeded, 0, "", "a b"},
		{"a site that is too small", func(w *world) {
			w.sites["a"].Facts.Hosts = -1
			w.sites["a"].Facts = driver.Facts{Usable: false, Reason: "too small"}
		}, state.Succeeded, 0, "", "b"},
		{"no site at all", func(w *world) { w.sites["a"].AcquireError, w.sites["b"].AcquireError = transient, transient }, state.Failed, -1, "a: not now; b: not now", "a b"},
		{"a fault that no other site mends", func(w *world) { w.sites["a"].AcquireError = &core.Error{Kind: core.Invalid, Err: errors.New("wrong")} }, state.Failed, -1, "wrong", "a"},
		{"a host lost in the midst of the run", func(w *world) {
			w.sites["a"].Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
		}, state.Failed, -1, "host f0 was lost", "a"},
		{"a host lost before it", func(w *world) {
			w.sites["a"].Head = &controltest.Head{Events: []protocol.Event{{Result: &protocol.Result{Kind: "lost", Message: "no join"}}}}
		}, state.Succeeded, 0, "", "a b"},
		{"a line that breaks three times", func(w *world) { w.sites["a"].Head.Broken = 3 }, state.Succeeded, 0, "", "a"},
		{"no image", func(w *world) { w.Images = controltest.Images{Err: transient} }, state.Failed, -1, "not now", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "a", "b")
			c.set(w)
			got := w.drive(t, w.submit(t), nil)
			if got.State != c.state || (c.exit >= 0) != (got.ExitCode != nil) || got.ExitCode != nil && *got.ExitCode != c.exit || !strings.Contains(got.Message, c.says) {
				t.Errorf("got %+v", got)
			}
			attempts, err := w.Store.Attempts(t.Context(), got.ID)
			if err != nil {
				t.Fatal(err)
			}
			var sites []string
			for _, a := range attempts {
				sites = append(sites, a.Site)
				if !a.Released() {
					t.Errorf("attempt %d is not released", a.N)
				}
			}
			if strings.Join(sites, " ") != c.sites {
				t.Errorf("attempts on %v, want %q", sites, c.sites)
			}
			w.nothingHeld(t)
		})
	}
}

// TestAHeadThatHangs is reported at once, waited for, and given up soon.
func TestAHeadThatHangs(t *testing.T) {
	for name, c := range map[string]struct {
		tries int
		state state.RunState
	}{"for a while": {headlink.SilentTries - 1, state.Succeeded}, "for good": {1000, state.Failed}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				w.sites["a"].Head.Hangs = c.tries
				var told []string
				w.Report = func(e protocol.Event) {
					if strings.Contains(e.Message, " f0 ") {
						told = append(told, e.Message)
					}
				}
				begun := time.Now()
				run := w.drive(t, w.submit(t), nil)
				if took := time.Since(begun); run.State != c.state || took > 15*time.Second {
					t.Errorf("after %v: %s, %s", took, run.State, run.Message)
				}
				if len(told) != 1 {
					t.Errorf("told %q", told)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

func TestStop(t *testing.T) {
	t.Run("while it runs", func(t *testing.T) {
		w := newWorld(t, "a")
		w.sites["a"].Head = controltest.Events(protocol.Result{Kind: core.Stopped.String(), Message: "stopped"})
		stop := make(chan struct{})
		time.AfterFunc(20*time.Millisecond, func() { close(stop) })
		if got := w.drive(t, w.submit(t), stop); got.State != state.Stopped {
			t.Errorf("got %+v", got)
		}
		w.nothingHeld(t)
	})
	t.Run("before it began", func(t *testing.T) {
		w := newWorld(t, "a")
		run := w.submit(t)
		if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
		if got := w.drive(t, run, nil); got.State != state.Stopped {
			t.Errorf("got %+v", got)
		}
		w.answered(t, run.ID, state.RequestDone)
		w.nothingHeld(t)
	})
	for name, alone := range map[string]bool{"on record only": false, "on record only, for a site that starts runs": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			if alone {
				controltest.StartsAlone(w.sites["a"], time.Hour, controltest.Always)
			}
			run := w.submit(t)
			w.sites["a"].OnAcquire = func() error { return w.Store.Requests().AskStop(t.Context(), run.ID) }
			if got := w.drive(t, run, nil); got.State != state.Stopped {
				t.Errorf("got %s, %s", got.State, got.Message)
			}
			for _, e := range controltest.EventsOf(t, w.Store, run.ID, event.KindAttemptState) {
				if s := e.Fields.(event.AttemptState).State; s == string(state.Starting) || s == string(state.Computing) {
					t.Errorf("it was %s", s)
				}
			}
			w.answered(t, run.ID, state.RequestDone)
			w.nothingHeld(t)
		})
	}
}

// TestAnotherControllerGoesOn: a controller continues a run from each point at which another one died.
func TestAnotherControllerGoesOn(t *testing.T) {
	begun := protocol.Event{Phase: core.PhaseRun, Begin: true}
	for _, c := range []struct {
		name     string
		leave    func(t *testing.T, w *world, a *state.Attempt) // what it left
		state    state.RunState
		attempts int
	}{
		{"with only the intent", func(_ *testing.T, _ *world, a *state.Attempt) { a.Lease, a.State = nil, state.Acquiring }, state.Succeeded, 2},
		{"with an intent and what it made", func(_ *testing.T, w *world, a *state.Attempt) { a.Lease, a.State = nil, state.Acquiring }, state.Succeeded, 2},
		{"with a lease, nothing launched", func(*testing.T, *world, *state.Attempt) {}, state.Succeeded, 2},
		{"with nodes that had not begun", func(_ *testing.T, _ *world, a *state.Attempt) { a.State = state.Starting }, state.Succeeded, 2},
		{"with the task under way", func(t *testing.T, w *world, a *state.Attempt) {
			a.State = state.Computing
			journal(t, w.sites["a"].Dir, begun)
		}, state.Succeeded, 1},
		{"with the hosts gone since", func(_ *testing.T, w *world, a *state.Attempt) {
			a.State = state.Computing
			w.sites["a"].Lost = true
			clear(w.sites["a"].Held)
		}, state.Failed, 1},
		{"with a result, the head gone", func(t *testing.T, w *world, a *state.Attempt) {
			a.State = state.Computing
			journal(t, w.sites["a"].Dir, begun)
			w.sites["a"].Head = nil
			raw := `{"exit":{"code":0},"outputs":[]}`
			if err := os.WriteFile(protocol.ResultPath(w.sites["a"].Dir), []byte(raw), 0o600); err != nil {
				t.Fatal(err)
			}
		}, state.Succeeded, 1},
		{"with the head dead and no result", func(t *testing.T, w *world, a *state.Attempt) {
			a.State = state.Computing
			journal(t, w.sites["a"].Dir, begun)
			w.sites["a"].Head = nil
		}, state.Failed, 1},
		{"in the midst of releasing, the hosts still there", func(_ *testing.T, w *world, a *state.Attempt) {
			code := 0
			a.State, a.Result, a.Verdict, a.ExitCode = state.Releasing, state.Exited, state.Completed, &code
		}, state.Succeeded, 1},
		{"with a lease that was half released", func(_ *testing.T, w *world, a *state.Attempt) {
			code := 0
			a.State, a.Result, a.Verdict, a.ExitCode = state.Releasing, state.Exited, state.Completed, &code
			w.sites["a"].Hostless = true
		}, state.Succeeded, 1},
		{"with a lease that was half made", func(_ *testing.T, w *world, _ *state.Attempt) { w.sites["a"].Hostless = true }, state.Succeeded, 2},
		{"in the midst of releasing", func(_ *testing.T, w *world, a *state.Attempt) {
			code := 0
			a.State, a.Result, a.Verdict, a.ExitCode = state.Releasing, state.Exited, state.Completed, &code
			w.sites["a"].Lost = true
			clear(w.sites["a"].Held)
		}, state.Succeeded, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "a")
			run := w.submit(t)
			owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
			w.sites["a"].Held[owner] = true
			a := state.Attempt{
				Run: run.ID, N: 1, Site: "a", Provider: "fake", State: state.Staging, Started: time.Now(),
				Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner},
			}
			c.leave(t, w, &a)
			run.State = state.Running
			if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), a, false)); err != nil {
				t.Fatal(err)
			}
			got := w.drive(t, run, nil)
			attempts, err := w.Store.Attempts(t.Context(), run.ID)
			if err != nil || got.State != c.state || len(attempts) != c.attempts {
				t.Errorf("got %+v after %d attempts, %v; want %s after %d", got, len(attempts), err, c.state, c.attempts)
			}
			w.nothingHeld(t)
		})
	}
}

// TestADeadHostHoldsNoRunOpen: the run ends, and the clean-up is repeated later.
func TestADeadHostHoldsNoRunOpen(t *testing.T) {
	w := newWorld(t, "a")
	unreachable := &core.Error{Kind: core.Transient, Err: errors.New("unreachable")}
	w.sites["a"].ReleaseErrors = []error{unreachable, unreachable, unreachable}
	run := w.submit(t)
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Fatalf("got %+v", got)
	}
	held, err := w.Store.Unreleased(t.Context())
	if err != nil || len(held) != 1 {
		t.Fatalf("unreleased: %v, %v", held, err)
	}
	w.drive(t, run, nil)
	w.nothingHeld(t)
	if held, err := w.Store.Unreleased(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("still unreleased: %v, %v", held, err)
	}
}

func TestSweepSparesTheLiving(t *testing.T) {
	w := newWorld(t, "a")
	live, gone := w.submit(t), state.NewID()
	user := w.Store.User()
	if err := w.Store.Forget(t.Context(), gone, ""); err != nil {
		t.Fatal(err)
	}
	unknown := core.Owner{User: user, Run: state.NewID(), Attempt: 1}
	w.sites["a"].Held = map[core.Owner]bool{{User: user, Run: live.ID, Attempt: 1}: true, {User: user, Run: gone, Attempt: 1}: true, unknown: true, {User: "stranger", Run: "x", Attempt: 1}: true}
	sites := []spec.Site{{Name: "a", Provider: "fake"}}
	for _, c := range []struct {
		how        gc.Sweeping
		kept, held int
	}{{gc.Sweeping{Dry: true}, 1, 4}, {gc.Sweeping{}, 1, 3}, {gc.Sweeping{Dry: true, Force: true}, 0, 3}, {gc.Sweeping{Force: true}, 0, 2}} {
		found, err := w.Garbage().Sweep(t.Context(), sites, nil, c.how)
		kept := 0
		for _, f := range found {
			if f.Kept != "" {
				kept++
			}
		}
		if err != nil || kept != c.kept || len(w.sites["a"].Held) != c.held {
			t.Errorf("%+v: found %+v, %v; held %v", c.how, found, err, w.sites["a"].Held)
		}
	}
}

// leftBuffers are burst buffers of a site, which End removes if they are drained.
type leftBuffers struct {
	list  []driver.BurstBuffer
	ended map[string]bool // by directory: whether its conflicts were reported
}

func (l *leftBuffers) Left(context.Context, string) ([]driver.BurstBuffer, error) {
	return l.list, &core.Error{Kind: core.Transient, Op: "reach", Object: "h2", Err: errors.New("it does not answer")}
}

func (l *leftBuffers) End(_ context.Context, b driver.BurstBuffer, reported bool) (driver.BurstBuffer, error) {
	l.ended[b.Dir] = reported
	if b.State == driver.BufferDrained || b.State == driver.BufferConflicts && reported {
		b.State = driver.BufferRemoved
	}
	return b, nil
}

// TestSweepOfBurstBuffers: those of living attempts are left alone, those of nobody are kept without force, and what
// is not drained is kept in any case. A host that does not answer hides no other.
func TestSweepOfBurstBuffers(t *testing.T) {
	w := newWorld(t, "a")
	live, gone := w.submit(t), state.NewID()
	if err := w.Store.Forget(t.Context(), gone, ""); err != nil {
		t.Fatal(err)
	}
	user := w.Store.User()
	forgotten := core.Owner{User: user, Run: gone, Attempt: 1}
	list := []driver.BurstBuffer{
		{Dir: "/live", Owner: core.Owner{User: user, Run: live.ID, Attempt: 1}, State: driver.BufferUndrained},
		{Dir: "/drained", Owner: forgotten, State: driver.BufferDrained},
		{Dir: "/undrained", Owner: forgotten, State: driver.BufferUndrained, Undrained: 5, Changes: 1},
		{Dir: "/draining", Owner: forgotten, State: driver.BufferDraining},
		{Dir: "/superseded", Owner: forgotten, State: driver.BufferSuperseded},
		{Dir: "/conflicts", Owner: forgotten, State: driver.BufferConflicts},
		{Dir: "/strange", Owner: core.Owner{User: user, Run: state.NewID(), Attempt: 1}, State: driver.BufferDrained},
		{Dir: "/old", State: driver.BufferDrained},
	}
	for _, c := range []struct {
		how          gc.Sweeping
		kept, ending []string
	}{
		{gc.Sweeping{Dry: true}, []string{"/undrained", "/draining", "/superseded", "/conflicts", "/strange", "/old"}, nil},
		{gc.Sweeping{Dry: true, Force: true}, []string{"/undrained", "/draining", "/superseded"}, nil},
		{gc.Sweeping{}, []string{"/undrained", "/draining", "/superseded", "/conflicts", "/strange", "/old"}, []string{"/conflicts", "/drained", "/draining", "/superseded", "/undrained"}},
		{gc.Sweeping{Force: true}, []string{"/undrained", "/draining", "/superseded"}, []string{"/conflicts", "/drained", "/draining", "/old", "/strange", "/superseded", "/undrained"}},
	} {
		l := &leftBuffers{list, map[string]bool{}}
		w.sites["a"].Buffers = l
		found, err := w.Garbage().Sweep(t.Context(), []spec.Site{{Name: "a", Provider: "fake"}}, nil, c.how)
		if err == nil {
			t.Errorf("%+v: the host that does not answer is no error", c.how)
		}
		var kept []string
		for _, f := range found {
			if f.Kept != "" {
				kept = append(kept, strings.TrimPrefix(f.Buffer, ":"))
			}
		}
		if len(found) != len(list)-1 || !slices.Equal(kept, c.kept) {
			t.Errorf("%+v: found %+v", c.how, found)
		}
		if ended := slices.Sorted(maps.Keys(l.ended)); !slices.Equal(ended, c.ending) {
			t.Errorf("%+v: ended %v", c.how, ended)
		}
		if l.ended["/drained"] != (c.how.Force && !c.how.Dry) {
			t.Errorf("%+v: %v", c.how, l.ended)
		}
	}
}

// TestSweepKeepsBuffersOfLeasesThatStay: the node of a lease whose release failed may run, and use its buffer.
func TestSweepKeepsBuffersOfLeasesThatStay(t *testing.T) {
	w := newWorld(t, "a")
	gone := state.NewID()
	if err := w.Store.Forget(t.Context(), gone, ""); err != nil {
		t.Fatal(err)
	}
	of := core.Owner{User: w.Store.User(), Run: gone, Attempt: 1}
	l := &leftBuffers{[]driver.BurstBuffer{{Dir: "/drained", Owner: of, State: driver.BufferDrained}}, map[string]bool{}}
	w.sites["a"].Buffers, w.sites["a"].Held = l, map[core.Owner]bool{of: true}
	failed := &core.Error{Kind: core.Permanent, Err: errors.New("it does not end")}
	w.sites["a"].ReleaseErrors = slices.Repeat([]error{failed}, 10)
	for _, ends := range []bool{false, true} {
		found, _ := w.Garbage().Sweep(t.Context(), []spec.Site{{Name: "a", Provider: "fake"}}, nil, gc.Sweeping{Force: true})
		if _, ended := l.ended["/drained"]; ended != ends || len(found) != 2 || (found[1].Kept == "") != ends {
			t.Errorf("ended %v, found %+v", l.ended, found)
		}
		w.sites["a"].ReleaseErrors = nil
	}
}

func TestCancelledControllingLeavesTheRun(t *testing.T) {
	w := newWorld(t, "a")
	w.sites["a"].Head = controltest.Events(protocol.Result{Kind: core.Stopped.String()}) // runs until it is stopped
	run := w.submit(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // once it runs
		for ctx.Err() == nil {
			if got, err := w.Store.Run(t.Context(), run.ID); err == nil && got.State == state.Running {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := w.Drive(ctx, run.ID, nil); err == nil {
		t.Error("a controller that was ended says that the run is over")
	}
	if got, err := w.Store.Run(t.Context(), run.ID); err != nil || got.State != state.Running || len(w.sites["a"].Held) != 1 {
		t.Errorf("got %+v, %v; held %v", got, err, w.sites["a"].Held)
	}
}
