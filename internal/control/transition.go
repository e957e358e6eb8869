package control

import (
	"cmp"
	"context"
	"errors"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// on changes the state of the attempt by an event, which put writes. An event that cannot
// come in the state is a panic, which sets the run aside: nothing says what to do next.
func (a *attempt) on(e machinery.Event) {
	was := a.rec.State
	next, err := machinery.Next(was, a.rec.Autostart, e)
	if err != nil {
		panic(err)
	}
	if a.c.reached != nil {
		a.c.reached(was, a.rec.Autostart, e)
	}
	if e == machinery.TaskBegins {
		a.rec.TaskBegan = true
	}
	if next == state.Ended && a.rec.Result == state.NoResult {
		a.rec.Result = state.Unreported
	}
	if a.rec.State = next; next != was {
		a.changes = append(a.changes, event.Event{
			Run: a.run.ID, Time: time.Now(), Attempt: a.rec.N, Fields: event.AttemptState{State: string(next), On: string(e)},
		})
	}
}

// put writes the attempt with its changes of state, in one transaction.
func (a *attempt) put(ctx context.Context) error {
	// What is on this machine dies with its power; elsewhere it would not.
	return a.write(ctx, a.rec.Provider != "local")
}

func (a *attempt) write(ctx context.Context, durable bool) error {
	if a.lost != nil && a.rec.Decided() {
		a.answers = append(a.answers, state.Request{ID: a.lost.request, Run: a.run.ID, Result: state.RequestDone})
	}
	_, err := a.c.Store.Write(ctx, state.Change{Attempt: &a.rec, Events: a.changes, Answers: a.answers, Durable: durable})
	if err == nil {
		a.changes, a.answers = nil, nil
	}
	return recorded(err)
}

// report sets the result of the attempt, once. That of a head which was taken for gone is
// replaced.
func (a *attempt) report(r *protocol.Result) {
	a.on(machinery.Reported)
	if !a.rec.Result.Reported() {
		a.rec.Result = resultOf(r)
	}
}

func resultOf(r *protocol.Result) state.Result {
	switch {
	case r.Continue:
		return state.Checkpointed
	case r.Exit != nil:
		return state.Exited
	case core.KindNamed(r.Kind) == core.Lost:
		return state.Lost
	}
	return state.TaskFailed
}

// endsBy is an error by which an attempt ends, with its event.
type endsBy struct {
	error
	event machinery.Event
}

func (e endsBy) Unwrap() error { return e.error }

// endsOn is the event by which an attempt ends that was never launched.
func endsOn(out outcome) machinery.Event {
	switch {
	case out.state == state.Stopped:
		return machinery.Stop
	case out.by != "":
		return out.by
	case missed(out.err):
		return machinery.Expired
	}
	return machinery.Refused
}

// decide has the attempt released, with what it means for the run. put writes that.
func (a *attempt) decide(out outcome) {
	switch a.rec.State {
	case state.Releasing, state.Closed:
		if a.rec.Verdict != state.NoVerdict {
			return
		}
	case state.Acquiring, state.Staging, state.InQueue:
		e := endsOn(out)
		if a.rec.State != state.InQueue && e != machinery.Stop { // nothing is awaited yet
			e = machinery.Refused
		}
		if a.on(e); a.rec.State == state.Cancelling { // nothing is there that could start
			a.on(machinery.NotStarted)
		}
	case state.Cancelling:
		a.on(machinery.NotStarted)
	case state.Starting:
		a.on(machinery.LaunchFailed)
		a.on(machinery.NothingOwed)
	case state.Computing, state.Checkpointing:
		a.on(machinery.HeadGone)
		a.on(machinery.NothingOwed)
	case state.Ended:
		a.on(machinery.NothingOwed)
	case state.Keeping, state.Collecting:
		a.on(machinery.GivenUp)
	case state.Lending:
		a.on(machinery.LendingOver)
		return
	}
	a.rec.Verdict = a.verdictOf(out)
}

// forsake has the attempt released without what its site, which does not answer, still has.
func (a *attempt) forsake(out outcome) {
	if !a.rec.Decided() { // what the result meant counted on its outputs
		a.rec.Verdict = state.NoVerdict
	}
	switch {
	case a.lost != nil:
		a.on(machinery.SiteLost)
	case a.rec.State == state.Ended || a.rec.State == state.Keeping || a.rec.State == state.Collecting:
		a.on(machinery.GivenUp)
	default:
		a.on(machinery.TimeOver)
	}
	a.decide(out)
}

// verdictOf is what an outcome of the attempt is on record.
func (a *attempt) verdictOf(out outcome) state.Verdict {
	switch {
	case goesOn(out) && a.rec.Result == state.Checkpointed:
		return state.Continues
	case goesOn(out):
		return state.ContinuesLost
	case out.again:
		return state.Again
	case missed(out.err):
		return state.ExpiredUnused
	case out.next:
		return state.Skipped
	case out.state == state.Stopped:
		return state.StoppedByUser
	case out.state == state.Succeeded:
		return state.Completed
	case out.exit != nil:
		return state.CommandFailed
	}
	return state.NotContinued
}

// remembered is the outcome of an attempt whose verdict is on record.
func remembered(rec state.Attempt) outcome {
	out := outcome{state: state.Failed, exit: rec.ExitCode}
	if rec.Kind != "" {
		out.err = &core.Error{Kind: core.KindNamed(rec.Kind), Err: errors.New(rec.Message), Remedy: rec.Remedy}
	}
	switch rec.Verdict {
	case state.Continues, state.ContinuesLost:
		out.moved = true
	case state.Again:
		return outcome{again: true}
	case state.Skipped:
		out.next = true
	case state.ExpiredUnused:
		out.next, out.err = true, missedError{cmp.Or(out.err, errors.New("no controller came to use the hosts"))}
	case state.Completed:
		out.state, out.err = state.Succeeded, nil
	case state.StoppedByUser:
		out.state, out.err = state.Stopped, cmp.Or(out.err, errStopped())
	}
	return out
}

// cancelled reports whether the site might still have started the attempt by itself when
// its autostart was cancelled: only the release makes certain that it does not.
func (a *attempt) cancelled() bool {
	return a.rec.State == state.Releasing && a.rec.Result == state.NoResult && a.rec.Autostart.MayStart()
}
