package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// hasTurn reports whether a case may begin. It depends on records alone, so that any number of
// controllers, also after a crash, begin no more cases than may run at once: of those that
// run, the last one has counted all others.
func hasTurn(ctx context.Context, d *drive) (bool, error) {
	if !d.sub.Array.Limited() {
		return true, nil
	}
	is, since, err := d.c.Store.Arrays().Turn(ctx, d.run.Case, d.sub.Array.AtOnce)
	if now := time.Now(); since.After(now) { // a clock that was put back
		since = now
	}
	if is && since.After(d.asked) { // since then it asks for a site
		d.asked = since
	}
	return is, err
}

// stoppedByArray reports whether an array has asked the case to stop, of which others have failed. A
// case whose turn has come by their end reads it here, before its supervisor has looked.
func stoppedByArray(ctx context.Context, d *drive) (bool, error) {
	if d.sub.Array == nil || d.sub.Array.StopAt == 0 {
		return false, nil
	}
	r, err := d.c.Store.Requests().Open(ctx, d.run.ID, state.RequestStop)
	return r != nil, err
}

// endedByArray returns the end of a case that waits for its turn, as it is on record: a stop of its
// array ends cases whose turn has not come, without a controller. Where its turn has come
// before, none does.
func endedByArray(ctx context.Context, d *drive) (out outcome, is bool, err error) {
	if !d.sub.Array.Limited() {
		return outcome{}, false, nil
	}
	run, err := d.c.Store.Run(ctx, d.run.ID)
	if err != nil || !run.State.Final() {
		return outcome{}, false, err
	}
	why := &core.Error{Kind: core.KindNamed(run.Kind), Err: errors.New(run.Message), Remedy: run.Remedy}
	return outcome{state: run.State, err: why}, true, nil
}

// arrayStopped is why a case has not begun that its array has stopped; nil: it has not.
func arrayStopped(ctx context.Context, store *state.Store, run state.Run) error {
	requests, err := store.Requests().Of(ctx, run.ID)
	if err != nil || !slices.ContainsFunc(requests, func(r state.Request) bool { return r.OfArray() }) {
		return nil // what the run ends with is on record without it
	}
	return errArrayStopped(run.Case)
}

// errArrayStopped is why a case has not begun whose array has stopped.
func errArrayStopped(of state.Case) *core.Error {
	array := submission.CasesOf(of.Array)
	return &core.Error{
		Kind: core.Stopped, Op: "begin a case of array", Object: array, Err: fmt.Errorf("%s was stopped, as other cases have failed", of.Name),
		Remedy: "`bee ps " + array + " --state failed` lists them. `bee retry " + array + "` runs them and this one again.",
	}
}

// endOfCase completes the record of a case that ends: where too many have failed by it, those
// that have not begun are asked to stop in the same transaction.
func endOfCase(ctx context.Context, store *state.Store, run *state.Run, change *state.Change) {
	if run.Case.Array == "" {
		return
	}
	sub, err := submission.Of(*run)
	if err != nil || sub.Array == nil || sub.Array.StopAt == 0 {
		return
	}
	switch run.State {
	case state.Failed:
		change.StopArrayAt, change.StopCounts, change.StopWhy = sub.Array.StopAt, submission.CasesOf(run.Case.Array), stopOf(errArrayStopped(run.Case))
	case state.Stopped:
		if why := arrayStopped(ctx, store, *run); why != nil {
			run.Message, run.Remedy = why.Error(), core.Remedy(why)
		}
	}
}

// stopOf is an error as the reason of cases that end without a controller.
func stopOf(why error) state.Stop {
	return state.Stop{Kind: core.KindOf(why).String(), Message: why.Error(), Remedy: core.Remedy(why)}
}

// StopWaiting ends those cases of an array whose turn has not come, as their user wants, and
// returns their ids. The others are asked one by one.
func (c *Runner) StopWaiting(ctx context.Context, array string) ([]string, error) {
	return c.Store.Arrays().StopWaiting(ctx, array, stopOf(errStopped()))
}
