package control

import (
	"context"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Reports of a site on the hosts that it has granted: that they are suspended, resumed or
// taken back later, and why they were taken back.

// reasonWithin bounds how long a site may take to report why hosts were taken back.
const reasonWithin = 5 * time.Second

// stand notes that the site itself has suspended the attempt's hosts: they are not
// unreachable, however long that takes.
func (a *attempt) stand(ctx context.Context, why string) {
	a.reach.silent, a.reach.unneeded = time.Time{}, time.Time{}
	if !a.reach.suspended {
		a.reach.suspended = true
		a.rec.on(machinery.HostsSuspended)
		a.rec.event(ctx, event.HostsSuspended{Site: a.at.site.Name, Reason: why})
	}
}

// proceed notes that the site has resumed them.
func (a *attempt) proceed(ctx context.Context, status driver.Status) {
	if !a.reach.suspended {
		return
	}
	a.reach.suspended = false
	a.rec.on(machinery.HostsResumed)
	resumed := event.HostsResumed{Site: a.at.site.Name}
	if a.lengthen(ctx, status.Ends) {
		resumed.Ends = status.Ends
	}
	a.rec.event(ctx, resumed)
}

// lengthen has the attempt take as much longer as its site now takes the hosts back
// later. The head is notified only once that is recorded: else the attempt might be taken
// for ended while it computes.
func (a *attempt) lengthen(ctx context.Context, ends time.Time) bool {
	first, span := a.at.lease.Deadline(), a.at.timeLimit()
	if first.IsZero() || !ends.After(first) || a.rec.Span > 0 && span == 0 {
		return false
	}
	if a.rec.Span > 0 {
		a.rec.Span = max(a.rec.Span, span+ends.Sub(first))
		if err := a.rec.put(ctx); err != nil {
			a.c.Log.Warn("record the attempt", "run", a.run.ID, "err", err)
			return false
		}
	}
	a.ends = ends
	return true
}

// reportEnd reports the later end of its slot to a head that answers again.
func (a *attempt) reportEnd(ctx context.Context, head Head) {
	if a.reach.suspended {
		if status, err := a.at.lease.Status(ctx); err == nil && status.Live && status.Reason == "" {
			a.proceed(ctx, status)
		}
	}
	if a.ends.IsZero() {
		return
	}
	if err := head.Extend(ctx, a.ends); err != nil {
		a.c.Log.Debug("the end of its slot was not reported to the head", "run", a.run.ID, "err", err)
		return
	}
	a.ends = time.Time{}
}
