package runner

import (
	"context"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Reports of a site on the hosts that it has granted: that they are suspended, resumed or
// taken back later, and why they were taken back.

// reasonWithin bounds how long a site may take to report why hosts were taken back.
const reasonWithin = 5 * time.Second

// hostsSuspended notes that the site itself has suspended the attempt's hosts: they are not
// unreachable, however long that takes.
func (r *reachability) hostsSuspended(ctx context.Context, why string) {
	r.silent, r.unneeded = time.Time{}, time.Time{}
	if !r.suspended {
		r.suspended = true
		r.rec.on(machinery.HostsSuspended)
		r.rec.event(ctx, event.HostsSuspended{Site: r.at.site.Name, Reason: why})
	}
}

// hostsResumed notes that the site has resumed them.
func (r *reachability) hostsResumed(ctx context.Context, status driver.Status) {
	if !r.suspended {
		return
	}
	r.suspended = false
	r.rec.on(machinery.HostsResumed)
	resumed := event.HostsResumed{Site: r.at.site.Name}
	if r.lengthen(ctx, status.Ends) {
		resumed.Ends = status.Ends
	}
	r.rec.event(ctx, resumed)
}

// lengthen has the attempt take as much longer as its site now takes the hosts back
// later. The head is notified only once that is recorded: else the attempt might be taken
// for ended while it computes.
func (r *reachability) lengthen(ctx context.Context, ends time.Time) bool {
	first, span := r.at.lease.Deadline(), r.at.timeLimit()
	if first.IsZero() || !ends.After(first) || r.rec.Span > 0 && span == 0 {
		return false
	}
	if r.rec.Span > 0 {
		r.rec.Span = max(r.rec.Span, span+ends.Sub(first))
		if err := r.rec.put(ctx); err != nil {
			r.rec.of.c.Log.Warn("record the attempt", "run", r.rec.of.run.ID, "err", err)
			return false
		}
	}
	r.ends = ends
	return true
}

// reportEnd reports the later end of its slot to a head that answers again.
func (r *reachability) reportEnd(ctx context.Context, head headlink.Head) {
	if r.suspended {
		if status, err := r.at.lease.Status(ctx); err == nil && status.Live && status.Reason == "" {
			r.hostsResumed(ctx, status)
		}
	}
	if r.ends.IsZero() {
		return
	}
	if err := head.Extend(ctx, r.ends); err != nil {
		r.rec.of.c.Log.Debug("the end of its slot was not reported to the head", "run", r.rec.of.run.ID, "err", err)
		return
	}
	r.ends = time.Time{}
}
