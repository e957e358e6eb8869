package runner

import (
	"context"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// missedInARow is how often hosts may be missed before no more are requested for a run: each
// time, its user pays for hosts that do nothing.
const missedInARow = 10

// missedBefore returns how often hosts were missed since the run was last begun anywhere.
func (d *drive) missedBefore(ctx context.Context) (times int) {
	attempts, err := d.c.Store.Attempts(ctx, d.run.ID)
	if err != nil {
		return 0
	}
	for _, rec := range slices.Backward(attempts) {
		if rec.Launched() {
			break
		}
		if rec.Verdict == state.ExpiredUnused {
			times++
		}
	}
	return times
}

// rejoin continues an attempt that its site starts, or has started, by itself.
func (a *attempt) rejoin(ctx context.Context) (outcome, error) {
	q := a.at.lease.Queue()
	w, err := a.queue.look(ctx, q)
	if core.IsKind(err, core.Transient) {
		return outcome{}, err // whether it runs is not known
	}
	if err == nil && w.Ready { // whatever was asked for meanwhile: it has begun
		if err := a.queue.granted(ctx, w.Since); err != nil {
			return outcome{}, err
		}
		if err := a.queue.launchedThere(ctx); err != nil {
			return outcome{}, err
		}
		return a.conclude(ctx, 0)
	}
	work, cancel := a.untilStop(ctx)
	defer cancel()
	if err == nil {
		err = a.queue.await(work)
	}
	if err != nil && !a.stopAsked() {
		if by := (ticketed{a}).notReplaced(ctx); by != nil {
			return outcome{state: state.Suspended, suspended: state.ReasonTicket, err: by}, nil
		}
	}
	if err != nil {
		return a.abandon(ctx, err)
	}
	if err := a.queue.launchedThere(ctx); err != nil {
		return outcome{}, err
	}
	return a.conclude(ctx, 0)
}

// cancelAutostart cancels an attempt that its site would start by itself. It reports
// whether the attempt has begun just now: then it continues. The run continues elsewhere
// only once it is certain that it has not begun here, however long that takes.
func (a *attempt) cancelAutostart(ctx context.Context, out outcome) (bool, error) {
	if a.rec.State == state.InQueue {
		a.rec.on(endsOn(out))
		a.rec.blame(out)
		if err := a.rec.put(ctx); err != nil {
			return false, err
		}
	}
	if a.rec.State == state.Ended { // its site is declared lost
		return false, errAway
	}
	recorded, since := false, time.Now()
	pause := fsutil.Backoff{First: firstLook, Exact: true}
	for {
		var (
			began bool
			err   error
		)
		if a.rec.State == state.Cancelling {
			began, err = a.queue.beganThere(ctx)
		}
		if began {
			return true, err
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil && a.rec.declaredLost(ctx) {
			return false, errAway
		}
		if err == nil || a.stopAsked() || !core.IsKind(err, core.Transient) {
			a.rec.decide(out)
			a.rec.blame(out)
			if err := a.rec.put(ctx); err != nil {
				return false, err
			}
			if err = a.releasing.release(ctx); err == nil || a.stopAsked() || a.rec.declaredLost(ctx) {
				return false, nil // what could not be released is so by later commands
			}
		}
		if !recorded {
			recorded = true
			called := event.Cancelling{Site: a.at.site.Name}
			if err != nil {
				c := event.CauseOf(err)
				called.Cause = &c
			}
			a.rec.event(ctx, called)
		}
		work, cancel := a.untilStop(ctx)
		pause.Longest = longestLook(since)
		core.Pause(work, pause.Next()) // why it ended is seen above
		cancel()
	}
}
