package runner

import (
	"context"
	"fmt"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// releasing releases the hosts of an attempt, with all that is on them.
type releasing struct {
	rec   *record
	at    *siteLease
	maker maker
}

// finish releases what the attempt holds. Where a host cannot be reached now,
// the run need not wait for it: the attempt stays unreleased, and it is tried
// again while the run continues and by later controllers. Before another attempt
// begins, though, it is tried for longer where this one may still compute there.
func (r *releasing) finish(ctx context.Context, out outcome) error {
	r.rec.decide(out)
	if len(r.rec.changes) > 0 {
		if err := r.rec.put(ctx); err != nil {
			return err
		}
	}
	begun, limit := time.Now(), time.Duration(0)
	further := out.again || out.next || out.moved
	if further && !r.rec.harmless(ctx) {
		limit = releaseLimit
	}
	for try := 1; ; try++ {
		err := r.release(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case further && r.rec.harmless(ctx) && core.IsKind(err, core.Transient), // the next site is tried meanwhile
			try >= releaseTries && time.Since(begun) >= limit:
			return r.leave(ctx, err)
		case try == 1 && limit > 0:
			r.rec.event(ctx, event.ReleaseDeferred{Site: r.at.site.Name, Cause: event.CauseOf(err), Limit: event.Seconds(limit)})
		}
		core.Pause(ctx, min(time.Duration(try)*200*time.Millisecond, longestPause)) // its end is seen by the next try
	}
}

// release releases everything; the attempt is over when it has succeeded.
func (r *releasing) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if mark := burstMark(r.rec, r.at.site); mark != "" {
		fsutil.TryRemove(mark) // the head has done so, if there was one
	}
	if r.at.lease == nil { // only an intent: whatever it made is found by its owner
		if err := driver.ReleaseOwned(ctx, r.at.provider, r.rec.owner(), r.rec.of.c.Store.User()); err != nil {
			return err
		}
	} else if err := r.rec.timed(ctx, core.PhaseRelease, func() error { return r.releaseOwn(ctx) }); err != nil {
		return fmt.Errorf("release site %s: %w", r.at.site.Name, err)
	}
	r.rec.on(machinery.Released)
	r.rec.ended()
	return r.rec.put(ctx)
}

// releaseOwn releases the lease, unless another installation controls the run by its ticket.
func (r *releasing) releaseOwn(ctx context.Context) error {
	if r.rec.of.sub.Ticket != "" {
		by, err := driver.AdoptedElsewhere(ctx, r.at.lease, r.rec.of.c.Store.User())
		if err != nil || by.Installation != "" {
			return err
		}
	}
	return r.at.lease.Release(ctx)
}

// finishUnanswered releases, or leaves, an attempt whose site is known not to answer.
func (r *releasing) finishUnanswered(ctx context.Context, out outcome, cause error) (outcome, error) {
	if r.rec.decide(out); r.rec.harmless(ctx) {
		return out, r.leave(ctx, cause)
	}
	return out, r.finish(ctx, out)
}

// leave leaves what could not be released on its site. It is tried again while
// this controller carries the run on, and by later ones.
func (r *releasing) leave(ctx context.Context, why error) error {
	if r.rec.State == state.Closed { // it was released, and only that could not be recorded
		return r.rec.put(context.WithoutCancel(ctx))
	}
	safe := event.SafeTried
	switch {
	case r.rec.harmless(ctx):
		safe = event.SafeIdle
	case r.rec.lost != nil:
		safe = event.SafeLost
	}
	r.rec.on(machinery.ReleaseFailed)
	r.rec.event(ctx, event.ReleaseFailed{Site: r.at.site.Name, Cause: event.CauseOf(why), Safe: safe})
	if r.rec.ReleaseTried = time.Now(); r.rec.Ended.IsZero() { // since then no site has the run, whatever controller tries again
		r.rec.Ended = r.rec.ReleaseTried
	}
	if err := r.rec.put(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	rest := firstRest
	if !r.rec.Fenced.IsZero() { // the site answers, though its hosts do not
		rest = 0
	}
	r.maker.releaseLater(r.rec.Attempt, rest)
	return nil
}
