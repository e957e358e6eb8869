package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/control/checkpoint"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// attempt is one stretch of a run on one lease, as this controller sees it.
type attempt struct {
	*controlled
	runner   runner
	site     spec.Site
	provider driver.Provider
	lease    driver.Lease
	rec      state.Attempt
	// changes are those of its state that are to be written.
	changes []event.Event
	answers []state.Request // of which the change is the result
	// lost is the request that declares its site lost, once this controller has read it.
	lost  *siteLost
	reach reachability

	// What follows is found again by each controller that continues the attempt. None of it
	// decides the attempt's course.

	// theirs is the image for the architecture of the hosts, vm the machines
	// around its containers, binds where inputs appear that lie outside of the
	// volume. resumed is set when the attempt continues from a checkpoint.
	theirs  core.Image
	vm      *protocol.VM
	binds   map[string]string
	resumed bool
	// mounts are the job's on this site; nil: they are not found yet.
	mounts []protocol.Mount
	// saved describes the virtual machines in that checkpoint, where it is of those.
	saved    *protocol.Saved
	compared checkpoint.Compared
	// waited is how long its checkpoint had to wait for the store.
	waited time.Duration
	// dead is set when a node was found dead before it had joined.
	dead atomic.Pointer[core.Error]
	// shown is how much of the task's output was passed to Controller.Output.
	shown int64
	// unseen is set when an attempt was over before this controller saw anything of it: the
	// history says so. lastSeen is the time of the head's last event, by the hosts' clock.
	unseen   bool
	lastSeen time.Time
	// newest is the newest checkpoint that its store was known to have when it was listed,
	// for who asks at each look at a site that does not answer.
	newest *driver.Generation
	listed time.Time
	// expected is when the expected start of the hosts was last recorded.
	expected time.Time
	// ends is a later end of the hosts' time, which is still to be sent to the head; zero:
	// none. A head that never receives it ends sooner.
	ends time.Time
	// preempted is driver.Facts.Preempted of its site.
	preempted time.Duration
	// breaks are those of the connection over which files travel.
	breaks transfer.Breaks
	// declaredLostAsked is when the run's record was last asked for that.
	declaredLostAsked time.Time
	// passed are the phases of its head so far.
	passed durations
	// remarks counts those of its head that went into the history.
	remarks int
	// lies is where on the head's host its checkpoint is, once the run's store has that too.
	lies string
}

// attempt makes one attempt on a site, to its end.
func (d *drive) attempt(ctx context.Context, site spec.Site) (outcome, error) {
	provider, err := d.c.Provider(site)
	if err != nil {
		return d.siteFailed(ctx, err)
	}
	a := &attempt{controlled: d.controlled, runner: d, site: site, provider: provider}
	work, cancel := d.untilStop(ctx)
	defer cancel()
	// A site that cannot do it is skipped before any image is built.
	facts, mounts, err := a.candidate().Check(work, a.first(), func(ctx context.Context) ([]state.Attempt, error) { return d.c.Store.Attempts(ctx, d.run.ID) })
	if err != nil {
		return a.abandon(ctx, err)
	}
	a.preempted, a.mounts = facts.Preempted, mounts
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
		if a.autostarted() && a.rec.Launched() { // it runs, whatever went wrong on the submitting machine
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
	if _, warned := a.noted.LoadOrStore("preemption on "+a.site.Name, true); warned {
		return
	}
	a.record(ctx, event.Preemption{Site: a.site.Name, Notice: event.Seconds(left), Grace: event.Seconds(placement.CheckpointGrace(&a.sub.Job))})
}

// acquire writes the intent, gets the lease and writes its handle.
func (a *attempt) acquire(ctx context.Context) error {
	a.rec = a.runner.newAttempt(a.site)
	a.run.State = state.Running
	if err := a.put(ctx); err != nil { // the intent
		return err
	}
	if err := recorded(a.c.Store.PutRun(ctx, a.run)); err != nil {
		return err
	}
	a.c.say(core.PhaseAcquire, a.choice())
	return a.timed(ctx, core.PhaseAcquire, func() error {
		lease, err := a.provider.Acquire(ctx, a.candidate().Request(a.owner()))
		if core.IsKind(err, core.Busy) { // another run may have come first since the site was asked
			err = cmp.Or(a.candidate().Occupied(ctx, a.first()), err)
		}
		if err != nil {
			return err
		}
		return a.hold(ctx, lease)
	})
}

// choice says in one line where the run goes, and why there.
func (a *attempt) choice() string {
	text := fmt.Sprintf("site %s (%s): %s", a.site.Name, a.provider.Info().Summary, a.rec.Why)
	if a.site.Slot > 0 {
		text += fmt.Sprintf("; %s", placement.SlotText(a.site, &a.sub.Job))
		if a.sub.Job.Checkpoint == nil {
			text += ", and the job, which has no `checkpoint:`, is ended if it is not done then"
		}
	}
	return text
}

// candidate is the attempt's site as one that may take the run.
func (a *attempt) candidate() *candidate.Site {
	return &candidate.Site{Spec: a.site, Provider: a.provider, Job: &a.sub.Job, Binary: a.c.Binary, Submitted: a.run.Created}
}

// first is the owner as which a site is asked of the run.
func (r *controlled) first() core.Owner {
	return core.Owner{User: r.c.Store.User(), Run: r.run.ID, Attempt: 1}
}

// hold writes the handle of the attempt's lease.
func (a *attempt) hold(ctx context.Context, lease driver.Lease) error {
	a.lease = lease
	a.runner.connected(lease)
	if len(lease.Hosts()) > 0 {
		a.on(machinery.Acquired)
	} else {
		a.on(machinery.AcquiredLater)
	}
	return a.holdSince(ctx, time.Time{})
}

// holdSince writes it again when the hosts are there: since a time by the
// site's clock, or just now.
func (a *attempt) holdSince(ctx context.Context, since time.Time) error {
	lease := a.lease
	if err := core.CheckHosts(lease.Hosts(), a.sub.Job.Hosts(), nil); err != nil {
		return err
	}
	a.rec.SiteGranted = since
	handle := lease.Handle()
	a.rec.Lease, a.rec.Hosts = &handle, nil
	if hosts := lease.Hosts(); len(hosts) > 0 && hosts[0].Name != "" { // else they are still to come
		a.rec.Hosts = hosts
	}
	if a.rec.Granted = since; since.IsZero() || !a.autostarted() {
		a.rec.Granted = time.Now()
	} else { // also while nobody looked
		a.rec.Phases[core.PhaseQueue] = max(0, since.Sub(a.rec.AutostartAt))
	}
	return a.put(context.WithoutCancel(ctx))
}

func (a *attempt) owner() core.Owner {
	return core.Owner{User: a.c.Store.User(), Run: a.run.ID, Attempt: a.rec.N}
}

// timed runs one phase of the controller's own and notes how long it took.
func (a *attempt) timed(ctx context.Context, p core.Phase, do func() error) error {
	begun := time.Now()
	a.c.Report(protocol.Event{Time: begun, Phase: p, Begin: true, Rank: -1})
	err := do()
	a.rec.Phases[p] += time.Since(begun)
	a.c.Report(protocol.Event{Time: time.Now(), Phase: p, End: true, Rank: -1})
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// abandon ends an attempt whose task was never started, as far as we know.
func (a *attempt) abandon(ctx context.Context, cause error) (outcome, error) {
	if a.lease != nil && a.rec.Launched() && ctx.Err() == nil {
		cause = a.headFiles().WithNodeError(ctx, cause)
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
	if a.autostarted() && !a.rec.Launched() {
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
	a.blame(out)
	if err := a.letGo(ctx, out); err != nil {
		return outcome{}, err
	}
	return out, nil
}

func (a *attempt) blame(out outcome) {
	if out.err != nil {
		a.rec.Kind, a.rec.Message, a.rec.Remedy = core.KindOf(out.err).String(), out.err.Error(), core.Remedy(out.err)
	}
	a.rec.ExitCode = out.exit
}

// letGo releases what the attempt holds. Where a host cannot be reached now,
// the run need not wait for it: the attempt stays unreleased, and it is tried
// again while the run continues and by later controllers. Before another attempt
// begins, though, it is tried for longer where this one may still compute there.
func (a *attempt) letGo(ctx context.Context, out outcome) error {
	a.decide(out)
	if len(a.changes) > 0 {
		if err := a.put(ctx); err != nil {
			return err
		}
	}
	begun, limit := time.Now(), time.Duration(0)
	further := out.again || out.next || out.moved
	if further && !a.harmless(ctx) {
		limit = releaseLimit
	}
	for try := 1; ; try++ {
		err := a.release(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case further && a.harmless(ctx) && core.IsKind(err, core.Transient), // the next site is tried meanwhile
			try >= releaseTries && time.Since(begun) >= limit:
			return a.leave(ctx, err)
		case try == 1 && limit > 0:
			a.event(ctx, event.ReleaseDeferred{Site: a.site.Name, Cause: event.CauseOf(err), Limit: event.Seconds(limit)})
		}
		core.Sleep(ctx, min(time.Duration(try)*200*time.Millisecond, longestPause)) //nolint:errcheck // its end is seen by the next try
	}
}

// release releases everything; the attempt is over when it has succeeded.
func (a *attempt) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if a.lease == nil { // only an intent: whatever it made is found by its owner
		if err := driver.ReleaseOwned(ctx, a.provider, a.owner()); err != nil {
			return err
		}
	} else if err := a.timed(ctx, core.PhaseRelease, func() error { return a.lease.Release(ctx) }); err != nil {
		return fmt.Errorf("release site %s: %w", a.site.Name, err)
	}
	a.on(machinery.Released)
	a.ended()
	return a.put(ctx)
}

// ended notes since when no site has had the run for the attempt, however late that is.
func (a *attempt) ended() {
	if !a.rec.Ended.IsZero() {
		return
	}
	a.rec.Ended = time.Now()
}
