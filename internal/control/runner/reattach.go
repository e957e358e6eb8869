package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// reattach continues an attempt that another controller began.
func (d *drive) reattach(ctx context.Context, rec state.Attempt) (outcome, error) {
	site, err := d.sub.Site(rec.Site)
	if err != nil {
		return outcome{}, err
	}
	if rec.Price != nil && site.AsksPrice() {
		site = site.WithPrice(spec.Price{Amount: rec.Price.Hour, Currency: rec.Price.Currency})
	}
	limited, provider, err := afford(ctx, d.controlled, site, rec.N)
	var unaffordable error
	if core.IsKind(err, core.Unsupported) { // what it has spent does not undo an attempt that has begun
		unaffordable = err
		provider, err = d.c.Provider(site)
	} else {
		site = limited
	}
	if err != nil {
		return outcome{}, err
	}
	a := attemptOf(d.controlled, d, site, provider, rec)
	if rec.State == state.InQueue && rec.Autostart == state.Enabled { // each controller sees to that once
		a.rec.Autostart = state.Enabling
	}
	lent, unlock, err := readers(ctx, d.c.Store, d.run, rec)
	if err != nil {
		return outcome{}, err
	}
	unlock()                                   // who has the lock of the run releases it
	if rec.State != state.Acquiring && !lent { // else it is known only later what is there
		a.rec.on(machinery.ControllerStarted)
	}
	if a.rec.Phases == nil {
		a.rec.Phases = map[core.Phase]time.Duration{}
	}
	if now := time.Now(); a.rec.Started.After(now) { // see Drive
		a.rec.Started = now
	}
	if rec.Lease != nil {
		lost, err := a.reach.recover(ctx, d.connected)
		if lent && (err != nil || lost) && ctx.Err() == nil {
			a.rec.on(machinery.ControllerStarted)
			lent = false
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return outcome{}, context.Cause(ctx)
		case err != nil:
			return a.unanswered(ctx, err)
		case lost:
			return a.giveUp(ctx)
		}
	}
	// A lease without hosts is one whose making or releasing was cut short, or whose hosts are still to come.
	gone := a.at.lease == nil || len(a.at.lease.Hosts()) == 0 && !a.reach.queued()
	if d.sub.Ticket != "" && rec.Lease != nil && !a.rec.Decided() {
		if out, is, err := (ticketed{a}).controlledElsewhere(ctx, gone); is || err != nil {
			return out, err
		}
	}
	if lent && !gone {
		out := remembered(a.rec.Attempt)
		return out, lentVolume{a}.lend(ctx, out)
	}
	if lent {
		a.rec.on(machinery.ControllerStarted)
	}
	switch a.rec.State {
	case state.Lending, state.Releasing, state.Closed: // everything that is wanted is collected
		return a.resumeRelease(ctx)
	case state.Cancelling:
		return a.abandoned(ctx, a.rec.cancels())
	case state.Acquiring, state.Staging, state.InQueue:
		if unaffordable != nil && !a.rec.autostarted() && !d.stopAsked() {
			return a.abandon(ctx, unaffordable)
		}
		return a.resumeWait(ctx, gone)
	}
	switch {
	case gone: // with all that was on them
		return a.hostsGone(ctx)
	case a.reports.begun(ctx) || d.stopAsked() || a.rec.Result.Reported():
		d.c.ReportText("", fmt.Sprintf("continuing run %s on site %s", d.run.ID, site.Name))
		return a.conclude(ctx, 0)
	}
	// No command of the user has run: release the lease, and start again.
	out := outcome{again: true}
	return out, a.releasing.finish(ctx, out)
}

// resumeRelease continues the release of an attempt whose verdict is on record.
func (a *attempt) resumeRelease(ctx context.Context) (outcome, error) {
	out := remembered(a.rec.Attempt)
	if a.rec.cancelled() {
		return a.abandoned(ctx, out)
	}
	return out, a.releasing.finish(ctx, out)
}

// cancels is the outcome of an attempt whose autostart an earlier controller was
// cancelling.
func (rec *record) cancels() outcome {
	if rec.of.stopAsked() || rec.Kind == core.Stopped.String() {
		return outcome{state: state.Stopped, err: errStopped()}
	}
	why := &core.Error{Kind: core.KindNamed(rec.Kind), Err: errors.New(rec.Message), Remedy: rec.Remedy}
	return outcome{next: true, state: state.Failed, err: why}
}

// resumeWait continues an attempt that was not launched, as far as is known.
func (a *attempt) resumeWait(ctx context.Context, gone bool) (outcome, error) {
	out := outcome{again: true}
	switch {
	case a.rec.autostarted() && !gone:
		a.c.ReportText("", fmt.Sprintf("continuing run %s, which site %s starts by itself", a.run.ID, a.at.site.Name))
		return a.rejoin(ctx)
	case a.stopAsked():
		out = outcome{state: state.Stopped, err: errStopped()}
	case a.rec.autostarted(): // it may have run there
		return a.hostsGone(ctx)
	case a.rec.State == state.Acquiring:
		a.rec.on(machinery.ControllerStarted)
	case !gone && a.at.lease.Queue() != nil: // its place in the queue is kept
		a.c.ReportText("", fmt.Sprintf("continuing run %s, which waits for site %s", a.run.ID, a.at.site.Name))
		// Also while nobody looked. That the image took may lie before the attempt.
		a.rec.Phases[core.PhaseQueue] += max(0, a.rec.Nameless(time.Now())+a.rec.Phases[core.PhaseImage])
		work, cancel := a.untilStop(ctx)
		defer cancel()
		if err := a.maker.getImage(work); err != nil {
			return a.abandon(ctx, err)
		}
		return a.execute(ctx, work)
	}
	return out, a.releasing.finish(ctx, out)
}

// hostsGone is the outcome of an attempt whose hosts are gone, with all that was on them.
func (a *attempt) hostsGone(ctx context.Context) (outcome, error) {
	gone := errors.New("its hosts are gone")
	if why, is := errors.AsType[*core.GoneError](a.reach.gone); is {
		gone = fmt.Errorf("%w: %w", gone, why)
	}
	out := outcome{state: state.Failed, err: &core.Error{
		Kind: core.Lost, Op: "recover site", Object: a.at.site.Name,
		Err: fmt.Errorf("%w; no result came back", gone), Remedy: "Run the job again.",
	}}
	if on, is, err := a.moved(ctx, &protocol.Result{Kind: core.Lost.String(), Message: gone.Error()}); err != nil {
		return outcome{}, err
	} else if is {
		out = on
	} else if a.stopAsked() {
		if err := withdrawLost(ctx, a); err != nil {
			return outcome{}, err
		}
		out = outcome{state: state.Stopped, err: errStopped()}
	}
	a.rec.blame(out)
	return out, a.releasing.finish(ctx, out)
}

// cleanUpNow is cleanUp for a run that is over, or suspended: that it was tried is
// recorded first, so that not every command tries again. A volume that other runs need is kept.
func (d *drive) cleanUpNow(ctx context.Context, rec state.Attempt) error {
	lent, unlock, err := readers(ctx, d.c.Store, d.run, rec)
	if err != nil || lent {
		if err == nil {
			unlock()
		}
		return err
	}
	own := &record{of: d.controlled, Attempt: rec}
	own.on(machinery.RunOver)
	own.ReleaseTried = time.Now()
	if rec.LentToRuns() {
		own.changes = append(own.changes, event.Event{Run: d.run.ID, Attempt: rec.N, Time: time.Now(), Fields: event.VolumeReleased{Site: rec.Site}})
	}
	err = own.put(ctx)
	unlock()
	if err != nil {
		return err
	}
	return d.cleanUp(ctx, own.Attempt)
}

// cleanUp releases what an attempt still holds whose run continues without it, or is over.
// A site that does not answer has it end soon: its user may want to resume the run.
func (d *drive) cleanUp(ctx context.Context, rec state.Attempt) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	site, err := d.sub.Site(rec.Site)
	if err != nil {
		return err
	}
	provider, err := d.c.Provider(site)
	if err != nil {
		return err
	}
	own := &record{of: d.controlled, Attempt: rec}
	own.on(machinery.RunOver)
	if rec.Lease != nil { // of another machine's, a list of what is here says nothing
		lease, err := provider.Recover(ctx, *rec.Lease)
		disconnect(lease)
		if err != nil && !core.IsKind(err, core.NotFound) {
			return err
		}
	}
	if err := driver.ReleaseOwned(ctx, provider, own.owner(), d.c.Store.User()); err != nil {
		return err
	}
	own.on(machinery.Released)
	return own.put(ctx)
}
