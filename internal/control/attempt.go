package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// attempt is one stretch of a run on one lease, as this controller sees it.
type attempt struct {
	*controlled
	runner runner
	rec    *record
	at     *siteLease
	reach  *reachability
	// queue is its wait for the hosts, and staging what is brought there.
	queue   *hostQueue
	staging *staging
	// reports are those of its head, which watch follows. keeping brings its checkpoints to
	// the run's store.
	reports *headReports
	watch   *headWatch
	keeping *keeping

	// preempted is driver.Facts.Preempted of its site.
	preempted time.Duration
}

// attemptOf returns an attempt of a run by its record, which may be empty.
func attemptOf(r *controlled, by runner, site spec.Site, provider driver.Provider, rec state.Attempt) *attempt {
	own := &record{of: r, Attempt: rec}
	at := &siteLease{rec: own, site: site, provider: provider}
	reach, reports := &reachability{rec: own, at: at}, &headReports{rec: own, at: at}
	keeping := &keeping{rec: own, at: at, reach: reach, runner: by}
	return &attempt{
		controlled: r, runner: by, rec: own, at: at, reach: reach, reports: reports, keeping: keeping,
		queue: &hostQueue{rec: own, at: at, runner: by}, staging: &staging{rec: own, at: at, keeping: keeping, runner: by},
		watch: &headWatch{rec: own, at: at, reach: reach, reports: reports, keeping: keeping},
	}
}

// attempt makes one attempt on a site, to its end.
func (d *drive) attempt(ctx context.Context, site spec.Site) (outcome, error) {
	provider, err := d.c.Provider(site)
	if err != nil {
		return d.siteFailed(ctx, err)
	}
	a := attemptOf(d.controlled, d, site, provider, state.Attempt{})
	work, cancel := d.untilStop(ctx)
	defer cancel()
	// A site that cannot do it is skipped before any image is built.
	facts, mounts, err := a.at.candidate().Check(work, a.first(), func(ctx context.Context) ([]state.Attempt, error) { return d.c.Store.Attempts(ctx, d.run.ID) })
	if err != nil {
		return a.abandon(ctx, err)
	}
	a.preempted, a.staging.mounts = facts.Preempted, mounts
	if err := d.getImage(work); err != nil {
		return d.failed(ctx, err)
	}
	if !provider.Info().Downloads { // else its site fetches them
		if err := d.fetchAhead(work); err != nil {
			return d.failed(ctx, err)
		}
	}
	if d.continued { // no hosts are asked for that could not be used
		if _, err := d.secrets(work); err != nil {
			return d.failed(ctx, err)
		}
	}
	if err := a.acquire(work); err != nil {
		return a.abandon(ctx, err)
	}
	clear(d.printed) // what comes after that is another wait
	a.warnOfPreemption(ctx)
	return a.execute(ctx, work)
}

// execute brings an attempt that has its lease to its end. work ends also
// when the user asks for it.
func (a *attempt) execute(ctx, work context.Context) (outcome, error) {
	if err := a.begin(work); err != nil {
		if a.rec.autostarted() && a.rec.Launched() { // it runs, whatever went wrong on the submitting machine
			return outcome{}, err
		}
		return a.abandon(ctx, err)
	}
	a.runner.releaseBefore(ctx)
	return a.conclude(ctx, 0)
}

// siteFailed is the outcome of an error before the user's command could run.
func (r *controlled) siteFailed(ctx context.Context, err error) (outcome, error) {
	out, ctxErr := r.failed(ctx, err)
	if ctxErr == nil && out.state == state.Failed && placement.Passable(err) {
		out.next = true
	}
	return out, ctxErr
}

// warnOfPreemption says once of a site that a checkpoint may come too late there.
func (a *attempt) warnOfPreemption(ctx context.Context) {
	left := placement.ShortNotice(&a.sub.Job, a.preempted)
	if left == 0 {
		return
	}
	if _, warned := a.noted.LoadOrStore("preemption on "+a.at.site.Name, true); warned {
		return
	}
	a.record(ctx, event.Preemption{Site: a.at.site.Name, Notice: event.Seconds(left), Grace: event.Seconds(placement.CheckpointGrace(&a.sub.Job))})
}

// acquire writes the intent, gets the lease and writes its handle.
func (a *attempt) acquire(ctx context.Context) error {
	a.rec.Attempt = a.runner.newAttempt(a.at.site)
	a.run.State = state.Running
	if err := a.rec.put(ctx); err != nil { // the intent
		return err
	}
	if err := recorded(a.c.Store.PutRun(ctx, a.run)); err != nil {
		return err
	}
	a.c.say(core.PhaseAcquire, a.choice())
	return a.rec.timed(ctx, core.PhaseAcquire, func() error {
		lease, err := a.at.provider.Acquire(ctx, a.at.candidate().Request(a.rec.owner()))
		if core.IsKind(err, core.Busy) { // another run may have come first since the site was asked
			err = cmp.Or(a.at.candidate().Occupied(ctx, a.first()), err)
		}
		if err != nil {
			return err
		}
		return a.queue.leased(ctx, lease)
	})
}

// choice says in one line where the run goes, and why there.
func (a *attempt) choice() string {
	text := fmt.Sprintf("site %s (%s): %s", a.at.site.Name, a.at.provider.Info().Summary, a.rec.Why)
	if a.at.site.Slot > 0 {
		text += fmt.Sprintf("; %s", placement.SlotText(a.at.site, &a.sub.Job))
		if a.sub.Job.Checkpoint == nil {
			text += ", and the job, which has no `checkpoint:`, is ended if it is not done then"
		}
	}
	return text
}

// first is the owner as which a site is asked of the run.
func (r *controlled) first() core.Owner {
	return core.Owner{User: r.c.Store.User(), Run: r.run.ID, Attempt: 1}
}

// abandon ends an attempt whose task was never started, as far as we know.
func (a *attempt) abandon(ctx context.Context, cause error) (outcome, error) {
	if a.at.lease != nil && a.rec.Launched() && ctx.Err() == nil {
		cause = a.at.headFiles().WithNodeError(ctx, cause)
	}
	by, _ := errors.AsType[endsBy](cause)
	if by.error != nil {
		cause = by.error
	}
	out, err := a.siteFailed(ctx, cause)
	out.by = by.event
	if err != nil || a.rec.N == 0 {
		return out, err
	}
	return a.abandoned(ctx, out)
}

func (a *attempt) abandoned(ctx context.Context, out outcome) (outcome, error) {
	if a.rec.autostarted() && !a.rec.Launched() {
		began, err := a.cancelAutostart(ctx, out)
		switch {
		case errors.Is(err, errAway):
			return a.giveUp(ctx)
		case err != nil:
			return outcome{}, err
		case began:
			return a.conclude(ctx, 0)
		case a.rec.Released():
			return out, nil
		}
	}
	a.rec.blame(out)
	if err := a.letGo(ctx, out); err != nil {
		return outcome{}, err
	}
	return out, nil
}

// letGo releases what the attempt holds. Where a host cannot be reached now,
// the run need not wait for it: the attempt stays unreleased, and it is tried
// again while the run continues and by later controllers. Before another attempt
// begins, though, it is tried for longer where this one may still compute there.
func (a *attempt) letGo(ctx context.Context, out outcome) error {
	a.rec.decide(out)
	if len(a.rec.changes) > 0 {
		if err := a.rec.put(ctx); err != nil {
			return err
		}
	}
	begun, limit := time.Now(), time.Duration(0)
	further := out.again || out.next || out.moved
	if further && !a.rec.harmless(ctx) {
		limit = releaseLimit
	}
	for try := 1; ; try++ {
		err := a.release(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case further && a.rec.harmless(ctx) && core.IsKind(err, core.Transient), // the next site is tried meanwhile
			try >= releaseTries && time.Since(begun) >= limit:
			return a.leave(ctx, err)
		case try == 1 && limit > 0:
			a.rec.event(ctx, event.ReleaseDeferred{Site: a.at.site.Name, Cause: event.CauseOf(err), Limit: event.Seconds(limit)})
		}
		core.Sleep(ctx, min(time.Duration(try)*200*time.Millisecond, longestPause)) //nolint:errcheck // its end is seen by the next try
	}
}

// release releases everything; the attempt is over when it has succeeded.
func (a *attempt) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if a.at.lease == nil { // only an intent: whatever it made is found by its owner
		if err := driver.ReleaseOwned(ctx, a.at.provider, a.rec.owner()); err != nil {
			return err
		}
	} else if err := a.rec.timed(ctx, core.PhaseRelease, func() error { return a.at.lease.Release(ctx) }); err != nil {
		return fmt.Errorf("release site %s: %w", a.at.site.Name, err)
	}
	a.rec.on(machinery.Released)
	a.rec.ended()
	return a.rec.put(ctx)
}
