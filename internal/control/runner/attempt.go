package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// attempt is one stretch of a run on one lease, as this controller sees it. Its methods are
// the course of the attempt; its parts do the work, and share its record and its lease.
type attempt struct {
	*controlled
	maker maker
	rec   *record
	at    *siteLease
	reach *reachability
	// queue is the wait for the hosts, and staging sends files there.
	queue   *hostQueue
	staging *staging
	// reports are those of the head, which watch follows.
	reports *headReports
	watch   *headWatch
	// keeping copies checkpoints to the run's store, and releasing releases the hosts.
	keeping   *keeping
	releasing *releasing
	// preempted is driver.Facts.Preempted of the site.
	preempted time.Duration
	// warning is driver.Facts.Warning of the site.
	warning string
	// spotLosses is how many attempts were lost, where spot machines are not used for that; else 0.
	spotLosses int
}

// attemptOf returns an attempt of a run by its record, which may be empty.
func attemptOf(r *controlled, by maker, site spec.Site, provider driver.Provider, rec state.Attempt) *attempt {
	own := &record{of: r, Attempt: rec}
	at := &siteLease{rec: own, site: site, provider: provider}
	reach := &reachability{rec: own, at: at}
	reports := &headReports{
		rec: own, at: at,
		measured: numberFile[measure.Record]{rec: own, read: state.ReadMeasured, store: state.WriteMeasured},
		samples:  numberFile[measure.Samples]{rec: own, read: state.ReadSamples, store: state.WriteSamples},
	}
	keeping := &keeping{rec: own, at: at, reach: reach, maker: by}
	return &attempt{
		controlled: r,
		maker:      by,
		rec:        own,
		at:         at,
		reach:      reach,
		queue:      &hostQueue{rec: own, at: at, maker: by},
		staging:    &staging{rec: own, at: at, keeping: keeping, maker: by},
		reports:    reports,
		watch:      &headWatch{rec: own, at: at, reach: reach, reports: reports, keeping: keeping},
		keeping:    keeping,
		releasing:  &releasing{rec: own, at: at, maker: by},
	}
}

// attempt makes one attempt on a site, to its end.
func (d *drive) attempt(ctx context.Context, site spec.Site) (outcome, error) {
	site, losses, err := withoutSpot(ctx, d.controlled, site)
	if err != nil {
		return d.siteFailed(ctx, err)
	}
	work, cancel := d.untilStop(ctx)
	defer cancel()
	if site, err = withPrice(work, d.controlled, site); err != nil {
		return d.siteFailed(ctx, err)
	}
	site, provider, err := afford(ctx, d.controlled, site, 0)
	if err != nil {
		return d.siteFailed(ctx, err)
	}
	a := attemptOf(d.controlled, d, site, provider, state.Attempt{})
	a.spotLosses = losses
	if err := reachedFromElsewhere(d.controlled, site, provider); err != nil {
		return d.siteFailed(ctx, err)
	}
	// A site that cannot do it is skipped before any image is built.
	facts, mounts, err := a.at.candidate().Check(work, a.first(), func(ctx context.Context) ([]state.Attempt, error) { return d.c.Store.Attempts(ctx, d.run.ID) })
	if err != nil {
		return a.abandon(ctx, err)
	}
	a.preempted, a.warning, a.staging.mounts = facts.Preempted, facts.Warning, mounts
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
	a.maker.releaseBefore(ctx)
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
	a.rec.Attempt = a.maker.newAttempt(a.at.site)
	a.rec.Price = a.at.price()
	a.run.State = state.Running
	if err := a.rec.put(ctx); err != nil { // the intent
		return err
	}
	if err := recorded(a.c.Store.PutRun(ctx, a.run)); err != nil {
		return err
	}
	a.c.ReportText(core.PhaseAcquire, a.at.choice())
	if a.spotLosses > 0 {
		a.rec.event(ctx, event.OnDemand{Site: a.at.site.Name, Lost: a.spotLosses})
	}
	if a.warning != "" {
		a.rec.event(ctx, event.Remark{Site: a.at.site.Name, Message: core.Printable(a.warning, event.MaxText)})
	}
	return a.rec.timed(ctx, core.PhaseAcquire, func() error {
		lease, err := a.at.provider.Acquire(ctx, a.at.candidate().Request(a.rec.owner()))
		if core.IsKind(err, core.Busy) { // another run may have come first since the site was asked
			err = cmp.Or(a.at.candidate().Occupied(ctx, a.first()), err)
		}
		if err != nil {
			return err
		}
		a.at.usePrice(lease)
		return a.queue.leased(ctx, lease)
	})
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
	if err := a.releasing.finish(ctx, out); err != nil {
		return outcome{}, err
	}
	return out, nil
}
