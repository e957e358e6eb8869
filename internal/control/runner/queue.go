package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// hostQueue is the wait of an attempt for its hosts: in the queue of its site, or until the
// site starts the nodes by itself.
type hostQueue struct {
	rec   *record
	at    *siteLease
	maker maker
	// expected is when the expected start of the hosts was last recorded.
	expected time.Time
}

// leased writes the handle of the attempt's lease.
func (h *hostQueue) leased(ctx context.Context, lease driver.Lease) error {
	h.at.lease = lease
	h.maker.connected(lease)
	if len(lease.Hosts()) > 0 {
		h.rec.on(machinery.Acquired)
	} else {
		h.rec.on(machinery.AcquiredLater)
	}
	return h.granted(ctx, time.Time{})
}

// granted writes the handle again when the hosts are there: since a time by the site's
// clock, or just now.
func (h *hostQueue) granted(ctx context.Context, since time.Time) error {
	lease := h.at.lease
	if err := core.CheckHosts(lease.Hosts(), h.rec.of.sub.Job.Hosts(), nil); err != nil {
		return err
	}
	h.rec.SiteGranted = since
	handle := lease.Handle()
	h.rec.Lease, h.rec.Hosts = &handle, nil
	if hosts := lease.Hosts(); len(hosts) > 0 && hosts[0].Name != "" { // else they are still to come
		h.rec.Hosts = hosts
	}
	if h.rec.Granted = since; since.IsZero() || !h.rec.autostarted() {
		h.rec.Granted = time.Now()
	} else { // also while nobody looked
		h.rec.Phases[core.PhaseQueue] = max(0, since.Sub(h.rec.AutostartAt))
	}
	return h.rec.put(context.WithoutCancel(ctx))
}

// look asks the site for the hosts, and records since when they cost.
func (h *hostQueue) look(ctx context.Context, q driver.LeaseQueue) (driver.Waiting, error) {
	w, err := h.ready(ctx, q)
	now := time.Now()
	if h.rec.Price == nil || !h.rec.Billed.IsZero() || w.Billed.IsZero() || w.Billed.After(now) {
		return w, err
	}
	if h.rec.Billed = w.Billed; h.rec.Billed.Before(h.rec.Started) { // what they cost before was not for this attempt
		h.rec.Billed = h.rec.Started
	}
	return w, errors.Join(err, h.rec.put(context.WithoutCancel(ctx)))
}

// ready asks the site for the hosts. A launch spec that is not known to be enabled is enabled
// first.
func (h *hostQueue) ready(ctx context.Context, q driver.LeaseQueue) (driver.Waiting, error) {
	if h.rec.Autostart == state.Enabling {
		if err := h.rec.putUnlessStopped(ctx, func() {}); err != nil {
			return driver.Waiting{}, err
		}
		err := h.at.lease.Autostart().EnableSpec(ctx)
		if core.IsKind(err, core.NotFound) {
			err = &core.Error{Kind: core.Lost, Op: "use site", Object: h.at.site.Name, Err: fmt.Errorf("what was left there is gone: %w", err)}
		}
		if err != nil {
			return driver.Waiting{}, err
		}
		h.rec.on(machinery.Enabled)
		h.rec.Autostart = state.Enabled
		if err := h.rec.put(ctx); err != nil {
			return driver.Waiting{}, err
		}
		w, err := candidate.Ready(ctx, q)
		if err == nil && !w.Ready && !h.at.site.Granted() { // what was granted may end with us
			h.rec.event(ctx, event.Autostart{Site: h.at.site.Name})
		}
		if err == nil && !h.at.site.Granted() {
			err = h.rec.unattended(ctx)
		}
		return w, err
	}
	return candidate.Ready(ctx, q)
}

// launchedThere records that the site has started the nodes, or does just now.
func (h *hostQueue) launchedThere(ctx context.Context) error {
	h.rec.on(machinery.StartedBySite)
	h.rec.Span, h.rec.Begun = h.at.timeLimit(), uptime(h.rec.of.c.clock)
	return h.rec.put(context.WithoutCancel(ctx))
}

// beganThere reports whether the site has started the nodes. It may have, and the
// record of that fail. Nothing that can be used has begun where there is no lease,
// or one whose hosts are not what was asked for: its release ends what is there.
func (h *hostQueue) beganThere(ctx context.Context) (bool, error) {
	if h.at.lease == nil {
		return false, nil
	}
	w, err := candidate.Ready(ctx, h.at.lease.Queue())
	if err != nil || !w.Ready {
		return false, err
	}
	if err := h.granted(ctx, w.Since); err != nil {
		return true, err
	}
	return true, h.launchedThere(ctx)
}

// await waits in the site's queue until its hosts are there, for as long as
// the site's `wait` says.
func (h *hostQueue) await(ctx context.Context) error {
	q := h.at.lease.Queue()
	if q == nil {
		return nil
	}
	w, err := h.look(ctx, q)
	if err == nil && !w.Ready || core.IsKind(err, core.Transient) {
		if h.rec.State == state.Staging {
			h.rec.on(machinery.Staged)
		}
		err = h.rec.timed(ctx, core.PhaseQueue, func() (err error) {
			if err := h.enter(ctx, state.Queued); err != nil {
				return err
			}
			w, err = h.wait(ctx, q, w)
			return errors.Join(err, h.enter(ctx, state.Running))
		})
	}
	if err != nil {
		return err
	}
	return h.granted(ctx, w.Since)
}

// enter records a state of the run.
func (h *hostQueue) enter(ctx context.Context, s state.RunState) error {
	h.rec.of.run.State = s
	return recorded(h.rec.of.c.Store.PutRun(context.WithoutCancel(ctx), h.rec.of.run))
}

// wait looks at the queue until the hosts are there, after what it was at a first look. An
// error ends the wait, and the attempt with it.
func (h *hostQueue) wait(ctx context.Context, q driver.LeaseQueue, w driver.Waiting) (driver.Waiting, error) {
	last, known, asked, begun := reported{}, true, time.Time{}, time.Now()
	look := fsutil.Backoff{First: firstLook, Exact: true}
	for {
		h.expect(ctx, w.Expected)
		if news, is := last.news(w); is {
			last = reported{w, time.Now()}
			h.rec.event(ctx, news)
		}
		// What may start by itself is given up only when it is known not to have.
		if h.at.site.Wait > 0 && time.Since(h.rec.Started) > h.at.site.Wait && (known || !h.rec.autostarted()) {
			return w, endsBy{&core.Error{
				Kind: core.Busy, Op: "use site", Object: h.at.site.Name, Err: fmt.Errorf("its hosts did not come within %s (%s)", h.at.site.Wait, w.Reason),
				Remedy: "Raise the site's `wait`, or let another site take the run.",
			}, machinery.QueueLimit}
		}
		if time.Since(asked) >= h.rec.of.c.lookForRequests() {
			asked = time.Now()
			if h.maker.sentElsewhere(ctx) {
				return w, endsBy{&core.Error{Kind: core.Busy, Op: "use site", Object: h.at.site.Name, Err: errors.New("its user has sent the run elsewhere"), Remedy: core.RemedyShow}, machinery.Leave}
			}
		}
		look.Longest = longestLook(begun)
		pause := look.Next()
		if left := time.Until(h.rec.Started.Add(h.at.site.Wait)); h.at.site.Wait > 0 && left > 0 {
			pause = max(min(pause, left), firstLook)
		}
		if err := core.Sleep(ctx, pause); err != nil {
			return w, err
		}
		var err error
		if w, err = h.look(ctx, q); core.IsKind(err, core.Transient) {
			w, known = driver.Waiting{Reason: "the site does not answer: " + err.Error()}, false
			if h.rec.declaredLost(ctx) {
				return w, endsBy{&core.Error{Kind: core.Lost, Op: "use site", Object: h.at.site.Name, Err: errors.New("it was declared lost by the run's user"), Remedy: core.RemedyShow}, machinery.SiteLost}
			}
		} else if core.IsKind(err, core.Lost) && !candidate.Missed(err) {
			return w, endsBy{err, machinery.Dropped}
		} else if err != nil || w.Ready {
			return w, err
		} else {
			known = true
		}
	}
}

// expect records when the hosts are expected, as the site says now: the history has
// only what was news.
func (h *hostQueue) expect(ctx context.Context, at time.Time) {
	if at = at.Truncate(time.Minute); at.Equal(h.rec.Expected) || time.Since(h.expected) < time.Minute {
		return
	}
	h.rec.Expected, h.expected = at, time.Now()
	if err := h.rec.put(ctx); err != nil {
		h.rec.of.c.Log.Warn("when the hosts are expected could not be recorded", "run", h.rec.of.run.ID, "err", err)
	}
}

// How often a queue, or a site that does not answer, is looked at: at first, later, and
// at least, however long it takes.
const (
	firstLook = 100 * time.Millisecond
	laterLook = 10 * time.Second
	longLook  = 30 * time.Second
)

// longestLook is the longest pause between two looks during a wait that began at a time: a
// small part of that wait.
func longestLook(since time.Time) time.Duration {
	return min(max(time.Since(since)/60, laterLook), longLook)
}

// reported is what was last recorded of a wait, and when.
type reported struct {
	driver.Waiting
	at time.Time
}

// leastMove is by how much an expectation moves at least to be news, and how long
// after the last that can be.
const leastMove = 10 * time.Minute

// news returns what is waited for, and until when if the site reports that. It reports
// whether that is worth a line after the last one. A site changes its forecast all the
// time: a wait of days would fill the history with small changes.
func (t reported) news(w driver.Waiting) (event.Queued, bool) {
	news, left, due := event.Queued{Reason: w.Reason}, time.Until(w.Expected), time.Since(t.at) >= leastMove
	far := left >= time.Minute // an expectation that is near says less than the reason
	if far {
		news.Expected = w.Expected
	}
	switch {
	case w.Reason != t.Reason:
		return news, w.Reason != ""
	case far && t.Expected.IsZero():
		return news, true
	case far:
		moved := w.Expected.Sub(t.Expected).Abs()
		return news, due && moved >= leastMove && moved > time.Until(t.Expected)/4
	}
	return news, due && w.Expected.IsZero() && time.Until(t.Expected) > time.Minute
}
