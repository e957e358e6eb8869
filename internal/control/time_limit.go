package control

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/state"
	"golang.org/x/sys/unix"
)

// How long an attempt may still compute while it cannot be reached. The time since its
// nodes began is only ever counted too short, whatever happens to this machine's
// clock: else two attempts might compute at once.

// moment is this machine's, now. Where it cannot be had, no time ever passes.
func (c *Controller) moment() state.Moment {
	if c.clock != nil {
		return c.clock()
	}
	var up unix.Timespec
	boot, err := procid.Boot()
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return state.Moment{}
	}
	return state.Moment{Boot: boot, Up: time.Duration(up.Nano())}
}

// canComputeFor is how much longer the attempt can compute at most. bounded is
// false where nothing ends it but its own end.
func (a *attempt) canComputeFor(ctx context.Context) (left time.Duration, bounded bool) {
	if a.rec.Span == 0 || !a.rec.Launched() {
		return 0, false
	}
	now := a.c.moment()
	if now.Boot != a.rec.Begun.Boot { // since then, or on this machine, nobody has counted: it is counted again
		a.rec.Begun = now
		if err := a.put(context.WithoutCancel(ctx)); err != nil {
			a.c.Log.Warn("record the attempt", "run", a.run.ID, "err", err)
		}
	}
	return max(0, a.rec.Span-(now.Up-a.rec.Begun.Up)), true
}

// spent reports whether the attempt's time is certainly over, so that nothing of it
// computes any more, whether anybody has seen its end or not.
func (a *attempt) spent(ctx context.Context) bool {
	left, bounded := a.canComputeFor(ctx)
	return bounded && left == 0
}

// span is how long an attempt can compute at most that is being launched: its
// slot, or where it has none, from when its hosts were granted to when they are
// taken back, both by the site's clock.
func (a *attempt) span() time.Duration {
	end := a.lease.Deadline()
	if a.site.Slot > 0 || end.IsZero() || a.rec.SiteGranted.IsZero() {
		return a.site.Slot
	}
	return max(0, end.Sub(a.rec.SiteGranted))
}
