package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/progress"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// conclude watches the attempt to its end, collects the outputs, releases the lease and
// returns what it means for the run.
func (a *attempt) conclude(ctx context.Context, offset int64) (outcome, error) {
	work, done := ticketed{a}.untilReplaced(ctx)
	defer done()
	out, err := a.finish(work, offset)
	if cause := context.Cause(work); err != nil && ctx.Err() == nil && errors.Is(cause, ErrAdopted) {
		err = cause
	}
	if errors.Is(err, ErrAdopted) {
		return outcome{state: state.Suspended, suspended: state.ReasonTicket, err: err}, nil
	}
	if errors.Is(err, errAway) {
		return a.giveUp(ctx)
	}
	return out, err
}

// finish is conclude for an attempt whose site answers; errAway: it does not, and
// the run can continue without it.
func (a *attempt) finish(ctx context.Context, offset int64) (outcome, error) {
	result, reported, err := awaitResult(ctx, a, offset)
	if err == nil {
		err = ticketed{a}.notReplaced(ctx) // the result may be of what another machine has asked for
	}
	if err != nil {
		return outcome{}, err
	}
	out, err := a.recordResult(ctx, result, reported)
	if err != nil {
		return outcome{}, err
	}
	if err := a.saveCheckpoint(ctx, result); err != nil {
		return outcome{}, err
	}
	if out, err = a.decide(ctx, result, out); err != nil {
		return outcome{}, err
	}
	var absent *core.Error
	if err := a.reach.waitForSite(ctx, func() (err error) { absent, err = a.collect(ctx, result, out); return err }); err != nil {
		return outcome{}, err
	}
	a.watch.showRest(ctx)
	if absent != nil {
		out = outcome{state: state.Failed, err: absent}
	}
	return out, a.releaseOrLend(ctx, out)
}

// awaitResult follows the head to its result. reported is false where the head has left none, and
// the result is how it was lost.
func awaitResult(ctx context.Context, a *attempt, offset int64) (result *protocol.Result, reported bool, err error) {
	result, err = a.watch.follow(ctx, offset)
	if err != nil {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		if u, is := errors.AsType[*unreadError](err); is {
			return nil, false, a.at.collector().Failed(u.err)
		}
		if errors.Is(err, errAway) {
			return nil, false, err
		}
		result = &protocol.Result{Kind: core.KindOf(err).String(), Message: err.Error(), Remedy: core.Remedy(err)}
	}
	if core.KindNamed(result.Kind) == core.Stopped && !a.stopAsked() { // its user's word would be on record
		a.unasked(result)
	}
	if result.TakenBack {
		core.BestEffort(a.rec.timed(ctx, core.PhaseRelease, func() error { return a.at.whyTakenBack(ctx, result) })) // then the result has no reason
	}
	return result, err == nil, nil
}

// recordResult records the result, for a controller that continues after this one, and returns
// what it means for the run.
func (a *attempt) recordResult(ctx context.Context, result *protocol.Result, reported bool) (outcome, error) {
	if reported {
		a.rec.report(result)
	} else {
		a.rec.on(machinery.HeadGone)
	}
	a.rec.Answer = result.Answer
	a.reports.account(ctx, result, a.watch.unseen)
	if len(result.Runtimes) > 0 {
		a.rec.Runtime = result.Runtimes[0]
	}
	a.reports.measure(result)
	out := a.judge(result)
	if result.Continue && !a.stopAsked() { // what is wrong with it is nothing to mend
		a.rec.blame(outcome{err: &core.Error{Kind: core.KindOf(out.err), Err: errors.New(progress.LeftBehind(&a.sub.Job, result) + "; its checkpoint is being fetched")}})
	} else {
		a.rec.blame(out)
	}
	if result.Continue {
		a.rec.on(machinery.CheckpointOwed)
	} else if a.rec.State == state.Keeping { // the head reports another result now
		a.rec.on(machinery.NotKept)
	}
	return out, a.rec.put(ctx)
}

// saveCheckpoint copies to the run's store the checkpoint that the attempt has written at its
// end. Of a lost attempt it is the last one that the head has kept.
func (a *attempt) saveCheckpoint(ctx context.Context, result *protocol.Result) error {
	if result.Continue {
		err := a.rec.timed(ctx, core.PhaseCollect, func() error { return a.keeping.bring(ctx, result) })
		if err == nil || a.sub.Job.Store == "" || !a.stopAsked() || ctx.Err() != nil {
			return err
		}
		a.rec.on(machinery.NotKept) // its user does not wait for the store
		a.c.ReportText(core.PhaseCollect, fmt.Sprintf("warning: the run is stopped without its last checkpoint: %v", err))
		return nil
	}
	if core.KindNamed(result.Kind) == core.Lost && result.Exit == nil {
		return a.reach.waitForSite(ctx, func() error { return a.keeping.lastSnapshot(ctx) })
	}
	return nil
}

// decide sets the verdict of an attempt whose checkpoints are in the store: whether the run
// continues by them, ends as its user asks, or as its result means.
func (a *attempt) decide(ctx context.Context, result *protocol.Result, out outcome) (outcome, error) {
	on, is, err := a.moved(ctx, result)
	if err != nil {
		return outcome{}, err
	}
	switch {
	case is:
		out = on
		a.rec.blame(out)
		if out.moved {
			a.rec.event(ctx, event.Moved{Site: a.at.site.Name, Cause: event.CauseOf(out.err)})
		} else {
			a.rec.event(ctx, event.Suspended{Site: a.at.site.Name, Reason: string(out.suspended), Cause: event.CauseOf(out.err)})
		}
	case a.stopAsked() && (result.Exit == nil || a.rec.doesWithout(ctx)): // while the checkpoint was collected, or cannot be
		out = outcome{state: state.Stopped, exit: out.exit, err: errStopped()}
		a.rec.blame(out)
	}
	a.rec.Verdict = a.rec.verdictOf(out)
	if a.rec.State == state.Ended {
		a.rec.on(machinery.OutputsOwed)
		err = a.rec.put(ctx)
	}
	return out, err
}

// unasked changes the result of a head that was asked to end, and not by the run's user,
// into that of a lost attempt. The run can then continue elsewhere, also where it is not
// known whether its command ran.
func (a *attempt) unasked(result *protocol.Result) {
	result.Kind, result.Message = core.Lost.String(), "its nodes were asked to end, and not by the run's user"
	result.Remedy = fmt.Sprintf("`bee logs --node 0 %s` shows what they wrote.", a.run.ID)
	if dead := a.watch.dead.Load(); dead != nil {
		result.Message, result.Remedy = dead.Error(), dead.Remedy
	}
}

// judge turns an attempt's result into what it means for the run.
func (a *attempt) judge(r *protocol.Result) outcome {
	if r.Exit != nil {
		code := r.Exit.Code
		out := outcome{state: state.Succeeded, exit: &code}
		if code != 0 {
			what := "run"
			switch {
			case r.InSetup:
				what = "setup"
			case r.InPost:
				what = "post"
			}
			out.state = state.Failed
			out.err = headlink.ExitError(&a.sub.Job, a.rec.Guest, what, r)
		}
		return out
	}
	err := &core.Error{Kind: core.KindNamed(r.Kind), Err: errors.New(cmp.Or(r.Message, "its head gave no reason")), Remedy: r.Remedy}
	if dead := a.watch.dead.Load(); dead != nil && !a.stopAsked() {
		err = dead
	}
	switch {
	case err.Kind == core.Stopped || a.stopAsked():
		return outcome{state: state.Stopped, err: errStopped()}
	case !a.rec.TaskBegan && placement.Passable(err):
		return outcome{next: true, state: state.Failed, err: err}
	}
	return outcome{state: state.Failed, err: headlink.HintShared(&a.sub.Job, r, err)}
}
