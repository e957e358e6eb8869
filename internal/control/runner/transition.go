package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// on changes the state of the attempt by an event, which put writes. An event that cannot
// come in the state is a panic, which sets the run aside: nothing says what to do next.
func (rec *record) on(e machinery.Event) {
	was := rec.State
	next, err := machinery.Next(was, rec.Autostart, e)
	if err != nil {
		panic(err)
	}
	if rec.of.c.reached != nil {
		rec.of.c.reached(was, rec.Autostart, e)
	}
	if e == machinery.TaskBegins {
		rec.TaskBegan = true
	}
	if next == state.Ended && rec.Result == state.NoResult {
		rec.Result = state.Unreported
	}
	if rec.State = next; next != was {
		rec.changes = append(rec.changes, event.Event{
			Run: rec.of.run.ID, Time: time.Now(), Attempt: rec.N, Fields: event.AttemptState{State: string(next), On: string(e)},
		})
	}
}

// put writes the attempt with its changes of state, in one transaction.
func (rec *record) put(ctx context.Context) error {
	return rec.write(ctx, state.Change{Durable: rec.elsewhere()})
}

// putUnlessStopped changes the attempt to one whose task may run, and writes that. Where a stop
// of the run is on record, nothing changes, and the error is errStopped.
func (rec *record) putUnlessStopped(ctx context.Context, change func()) error {
	was, changes := rec.Attempt, rec.changes
	change()
	err := rec.write(ctx, state.Change{Durable: rec.elsewhere(), UnlessStopped: true})
	if errors.Is(err, state.ErrStopAsked) {
		rec.Attempt, rec.changes = was, changes
		return errStopped()
	}
	return err
}

// elsewhere reports whether the attempt is on another machine: what is on this one dies with
// its power.
func (rec *record) elsewhere() bool { return rec.Provider != "local" }

// write completes a change by the attempt, and writes it.
func (rec *record) write(ctx context.Context, c state.Change) error {
	if rec.lost != nil && rec.Decided() {
		rec.answers = append(rec.answers, state.Request{ID: rec.lost.request, Run: rec.of.run.ID, Result: state.RequestDone})
	}
	c.Attempt, c.Events, c.Answers = &rec.Attempt, rec.changes, rec.answers
	_, err := rec.of.c.Store.Write(ctx, c)
	if err == nil {
		rec.changes, rec.answers = nil, nil
	}
	return recorded(err)
}

// report sets the result of the attempt, once. That of a head which was taken for gone is
// replaced.
func (rec *record) report(r *protocol.Result) {
	rec.on(machinery.Reported)
	if !rec.Result.Reported() {
		rec.Result = resultOf(r)
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
	case candidate.Missed(out.err):
		return machinery.Expired
	}
	return machinery.Refused
}

// decide has the attempt released, with what it means for the run. put writes that.
func (rec *record) decide(out outcome) {
	switch rec.State {
	case state.Releasing, state.Closed:
		if rec.Verdict != state.NoVerdict {
			return
		}
	case state.Acquiring, state.Staging, state.InQueue:
		e := endsOn(out)
		if rec.State != state.InQueue && e != machinery.Stop { // nothing is awaited yet
			e = machinery.Refused
		}
		if rec.on(e); rec.State == state.Cancelling { // nothing is there that could start
			rec.on(machinery.NotStarted)
		}
	case state.Cancelling:
		rec.on(machinery.NotStarted)
	case state.Starting:
		rec.on(machinery.LaunchFailed)
		rec.on(machinery.NothingOwed)
	case state.Computing, state.Checkpointing:
		rec.on(machinery.HeadGone)
		rec.on(machinery.NothingOwed)
	case state.Ended:
		rec.on(machinery.NothingOwed)
	case state.Keeping, state.Collecting:
		rec.on(machinery.GivenUp)
	case state.Lending:
		rec.on(machinery.LendingOver)
		return
	}
	rec.Verdict = rec.verdictOf(out)
}

// forsake has the attempt released without what its site, which does not answer, still has.
func (rec *record) forsake(out outcome) {
	if !rec.Decided() { // what the result meant counted on its outputs
		rec.Verdict = state.NoVerdict
	}
	switch {
	case rec.lost != nil:
		rec.on(machinery.SiteLost)
	case rec.State == state.Ended || rec.State == state.Keeping || rec.State == state.Collecting:
		rec.on(machinery.GivenUp)
	default:
		rec.on(machinery.TimeOver)
	}
	rec.decide(out)
}

// verdictOf is what an outcome of the attempt is on record.
func (rec *record) verdictOf(out outcome) state.Verdict {
	switch {
	case continues(out) && rec.Result == state.Checkpointed:
		return state.Continues
	case continues(out):
		return state.ContinuesLost
	case out.again:
		return state.Again
	case candidate.Missed(out.err):
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
		out.next, out.err = true, candidate.MissedError{Err: cmp.Or(out.err, errors.New("no controller came to use the hosts"))}
	case state.Completed:
		out.state, out.err = state.Succeeded, nil
	case state.StoppedByUser:
		out.state, out.err = state.Stopped, cmp.Or(out.err, errStopped())
	}
	return out
}

// cancelled reports whether the site might still have started the attempt by itself when
// its autostart was cancelled: only the release makes certain that it does not.
func (rec *record) cancelled() bool {
	return rec.State == state.Releasing && rec.Result == state.NoResult && rec.Autostart.MayStart()
}

// event adds an event of the attempt to the run's history, and prints it.
func (rec *record) event(ctx context.Context, f event.Fields) { rec.of.recordOf(ctx, rec.N, f) }
