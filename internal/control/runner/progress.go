package runner

import (
	"context"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/progress"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// backoff rests before the next attempt where the last ones were short: each costs its
// site a job.
func (d *drive) backoff(ctx context.Context) error {
	attempts, err := d.c.Store.Attempts(ctx, d.run.ID)
	if err != nil {
		return err
	}
	n := placement.Short(attempts)
	pause := placement.Pause(n)
	if pause == 0 {
		return nil
	}
	d.record(ctx, event.Backoff{Attempts: n, Shorter: event.Seconds(placement.ShortAttempt), Pause: event.Seconds(pause)})
	work, cancel := d.untilStop(ctx)
	defer cancel()
	if (moveRequests{d}).wait(work, pause) != nil && !d.stopAsked() {
		return context.Cause(ctx)
	}
	return nil
}

// moved is the outcome of an attempt whose checkpoint, if it has one, was fetched. is: the run continues by it.
func (a *attempt) moved(ctx context.Context, r *protocol.Result) (out outcome, is bool, err error) {
	if !a.sub.Job.Interruptible() || a.stopAsked() {
		return out, false, nil
	}
	next, err := (&progress.Attempt{
		Run: a.run.ID, Job: &a.sub.Job, Record: &a.rec.Attempt, Kept: a.checkpoints(), Most: a.c.maxMoves,
		Attempts: func(ctx context.Context) ([]state.Attempt, error) { return a.c.Store.Attempts(ctx, a.run.ID) },
	}).Continue(ctx, r)
	if err != nil || next == nil {
		return out, false, err
	}
	if !next.Moved {
		out.state = state.Suspended
	}
	if err := withdrawLost(ctx, a); err != nil {
		return out, false, err
	}
	out.moved, out.suspended, out.err = next.Moved, next.Suspended, next.Err
	return out, true, nil
}

// withdrawLost withdraws what cases of the run's pack have ended with in this attempt, where no
// checkpoint of it has that.
func withdrawLost(ctx context.Context, a *attempt) error {
	if len(a.sub.Job.Pack) == 0 {
		return nil
	}
	list, err := a.checkpoints().Whole(ctx)
	if err != nil || len(list) > 0 && list[len(list)-1].Attempt == a.rec.N {
		return err
	}
	return withdraw(ctx, a.rec, a.rec.N, 0)
}
