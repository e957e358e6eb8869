package request

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// SendElsewhere notes, in its user's name, that a run which waits for hosts shall
// have them on other sites, in that order, before those that it has. The Drive that
// waits takes it out of its queue; where it has begun there
// meanwhile, it stays, and goes to these sites when it moves. Invalid: it does not
// wait, or waits for the first of them.
func (q Requests) SendElsewhere(ctx context.Context, run state.Run, sites []spec.Site) error {
	refuse := func(why, remedy string) error {
		return &core.Error{Kind: core.Invalid, Op: "send elsewhere the run", Object: run.ID, Err: errors.New(why), Remedy: remedy}
	}
	attempts, err := q.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	if run.State.Final() {
		return refuse("it is over ("+string(run.State)+")", "`bee show "+run.ID+"` shows how it ended.")
	}
	if n := len(attempts); n > 0 && !attempts[n-1].Released() {
		switch last := attempts[n-1]; {
		case last.Launched():
			return refuse("it runs on site "+last.Site, "`bee move "+run.ID+"` has a job that can write a checkpoint do so, and continue elsewhere. Where that site is gone for good, `bee resume --site-lost "+run.ID+"` continues the run without it.")
		case last.Site == sites[0].Name:
			return refuse("it waits for site "+last.Site+" already", "Name another with --site.")
		}
	}
	_, err = q.Ask(ctx, run.ID, attempts, state.RequestMove, sites)
	return err
}

// Move has a run continue on other sites, in that order, before those that it has; none: on
// the next. ask has the job of an attempt write a checkpoint and end, see askHead.
func (q Requests) Move(ctx context.Context, run state.Run, attempt int, sites []spec.Site, ask func() error) error {
	sub, err := submission.Of(run)
	if err != nil {
		return err
	}
	if len(sites) == 0 && sub.Listed() { // it continues on the next by itself
		return q.done(ctx, run, attempt, state.RequestMove, ask)
	}
	attempts, err := q.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	if n := len(attempts); n > 0 && !attempts[n-1].Released() && len(sites) > 0 && attempts[n-1].Site == sites[0].Name {
		return &core.Error{Kind: core.Invalid, Op: "move run", Object: run.ID, Err: errors.New("it runs on site " + sites[0].Name + " already"), Remedy: "Name another with --site."}
	}
	// Recorded first: the job may write its checkpoint and end before the next line.
	_, err = q.askOf(ctx, run, attempt, state.RequestMove, sites, ask)
	return err
}

// Checkpoint has a run write a checkpoint now. ask asks the head of an attempt for it: see
// askHead.
func (q Requests) Checkpoint(ctx context.Context, run state.Run, attempt int, ask func() error) error {
	return q.done(ctx, run, attempt, state.RequestCheckpoint, ask)
}
