package runner

import (
	"context"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/state"
	"golang.org/x/sys/unix"
)

// How long an attempt may still compute while it cannot be reached. The time since its
// nodes began is only ever counted too short, whatever happens to this machine's
// clock: else two attempts might compute at once.

// uptime is the moment of this machine now, by clock if that is set. Where it cannot be
// had, no time ever passes.
func uptime(clock func() state.Moment) state.Moment {
	if clock != nil {
		return clock()
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
func (rec *record) canComputeFor(ctx context.Context) (left time.Duration, bounded bool) {
	if rec.Span == 0 || !rec.Launched() {
		return 0, false
	}
	now := uptime(rec.of.c.clock)
	if now.Boot != rec.Begun.Boot { // since then, or on this machine, nobody has counted: it is counted again
		rec.Begun = now
		if err := rec.put(context.WithoutCancel(ctx)); err != nil {
			rec.of.c.Log.Warn("record the attempt", "run", rec.of.run.ID, "err", err)
		}
	}
	return max(0, rec.Span-(now.Up-rec.Begun.Up)), true
}

// timeOver reports whether the attempt's time is certainly over, so that nothing of it
// computes any more, whether anybody has seen its end or not.
func (rec *record) timeOver(ctx context.Context) bool {
	if !rec.Fenced.IsZero() {
		return true
	}
	left, bounded := rec.canComputeFor(ctx)
	return bounded && left == 0
}

// timeLimit is how long an attempt can compute at most that is being launched: its
// slot, or where it has none, from when its hosts were granted to when they are
// taken back, both by the site's clock.
func (at *siteLease) timeLimit() time.Duration {
	end := at.lease.Deadline()
	if at.site.Slot > 0 || end.IsZero() || at.rec.SiteGranted.IsZero() {
		return at.site.Slot
	}
	return max(0, end.Sub(at.rec.SiteGranted))
}

// harmless reports whether nothing of the attempt can compute on its site any
// more, released or not.
func (rec *record) harmless(ctx context.Context) bool {
	return machinery.MayCompute(rec.State, rec.Autostart, rec.Result) == machinery.No || rec.timeOver(ctx)
}
