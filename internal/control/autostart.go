package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/wire"
)

func (a *attempt) launchSpec(ctx context.Context, secrets map[string]string) (*launch.Spec, error) {
	earlier, err := a.c.Store.Attempts(ctx, a.run.ID)
	if err != nil {
		return nil, err
	}
	job := &a.sub.Job
	m := placement.LearnMargin(job, a.at.site, earlier, a.at.lease.KeepsFiles())
	plan, err := launch.MakePlan(job, a.run, a.theirs, secrets, a.binds, a.resumed, m)
	if err != nil {
		return nil, err
	}
	if job.Checkpoint != nil && (a.at.site.Slot > 0 || !a.at.lease.Deadline().IsZero() || a.at.awaited()) {
		a.rec.Margin, a.rec.MarginWhy = m.Total, m.Why
	}
	if a.mounts == nil { // another controller has found them
		if a.mounts, err = a.at.candidate().Mounts(ctx); err != nil {
			return nil, err
		}
	}
	plan.Mounts = a.mounts
	plan.VM, plan.Slot, plan.InGuest = a.vm, a.at.site.Slot, a.sub.InGuest
	plan.Input, plan.Terminal = a.sub.Input, a.sub.Terminal
	if plan.Restore = a.saved != nil; plan.Restore {
		plan.Setup = nil
	}
	if len(a.rec.Key) == 0 {
		a.rec.Key = wire.NewKey()
	}
	return &launch.Spec{
		Shared:  a.rec.Key,
		Version: protocol.Version, Owner: a.rec.owner(), Plan: plan, Nodes: job.Nodes, PerHost: job.NodesPerHost(),
		Runtime: launch.RuntimeFor(job, a.at.site), Network: launch.First(job.Network, a.at.site.Network),
	}, nil
}

// stageAutostart leaves a staged attempt with its site, where the site can start it by
// itself. From the record on, it counts as one that may run: the launch spec is
// enabled at the next status check, by this controller or by another.
func (a *attempt) stageAutostart(ctx context.Context) error {
	u := a.at.lease.Autostart()
	if u == nil || !a.at.awaited() {
		return nil
	}
	if len(a.sub.Job.Secrets) > 0 {
		return a.attend(ctx, u)
	}
	o, err := a.launchSpec(ctx, nil)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := u.StageSpec(ctx, raw); core.IsKind(err, core.Unsupported) {
		return nil
	} else if err != nil {
		return err
	}
	a.rec.on(machinery.Enabling)
	a.rec.Autostart, a.rec.AutostartAt = state.Enabling, time.Now()
	return a.rec.put(ctx)
}

// attend reports to a site, and to the user, that it cannot start a staged attempt by itself.
func (a *attempt) attend(ctx context.Context, u driver.Autostart) error {
	if a.at.site.Granted() { // the hosts are there, and go with us
		return nil
	}
	if err := u.Attend(ctx); core.IsKind(err, core.Unsupported) {
		return nil
	} else if err != nil {
		return err
	}
	a.rec.Autostart = state.Attended
	a.rec.event(ctx, event.Attendance{Site: a.at.site.Name})
	return nil
}

// look asks how the waiting stands. A launch spec that is not known to be enabled
// come first.
func (a *attempt) look(ctx context.Context, q driver.LeaseQueue) (driver.Waiting, error) {
	if a.rec.Autostart == state.Enabling {
		err := a.at.lease.Autostart().EnableSpec(ctx)
		if core.IsKind(err, core.NotFound) {
			err = &core.Error{Kind: core.Lost, Op: "use site", Object: a.at.site.Name, Err: fmt.Errorf("what was left there is gone: %w", err)}
		}
		if err != nil {
			return driver.Waiting{}, err
		}
		a.rec.on(machinery.Enabled)
		a.rec.Autostart = state.Enabled
		if err := a.rec.put(ctx); err != nil {
			return driver.Waiting{}, err
		}
		w, err := ready(ctx, q)
		if err == nil && !w.Ready && !a.at.site.Granted() { // what was granted may end with us
			a.rec.event(ctx, event.Autostart{Site: a.at.site.Name})
		}
		return w, err
	}
	return ready(ctx, q)
}

// ready asks for the hosts that a site was asked for. Only what the site says of them is
// an answer: that they are gone. A name that is not resolved on a train, a login that has
// ended, words of a batch system that nobody knows: all that leaves open what became of
// them, and passes.
func ready(ctx context.Context, q driver.LeaseQueue) (driver.Waiting, error) {
	w, err := q.Ready(ctx)
	if w.Missed && err != nil {
		return w, missedError{err}
	}
	if err == nil || ctx.Err() != nil || core.IsKind(err, core.Lost) || core.IsKind(err, core.NotFound) {
		return w, err
	}
	return w, &core.Error{Kind: core.Transient, Err: err}
}

// missedError is that of hosts which were there, and were released as no controller came
// to use them: that says nothing against the site, nor against the run.
type missedError struct{ error }

func (e missedError) Unwrap() error { return e.error }

func missed(err error) bool { return errors.As(err, new(missedError)) }

// missedInARow is how often that may happen before a run is not asked for again: each
// time costs its user what hosts cost that do nothing.
const missedInARow = 10

// missedBefore returns how often that has happened since the run was last begun anywhere.
func (d *drive) missedBefore(ctx context.Context) (times int) {
	attempts, err := d.c.Store.Attempts(ctx, d.run.ID)
	if err != nil {
		return 0
	}
	for _, rec := range slices.Backward(attempts) {
		if rec.Launched() {
			break
		}
		if rec.Verdict == state.ExpiredUnused {
			times++
		}
	}
	return times
}

// launchedThere records that the site has started the nodes, or does just now.
func (a *attempt) launchedThere(ctx context.Context) error {
	a.rec.on(machinery.StartedBySite)
	a.rec.Span, a.rec.Begun = a.at.timeLimit(), a.c.moment()
	return a.rec.put(context.WithoutCancel(ctx))
}

// rejoin continues an attempt that its site starts, or has started, by itself.
func (a *attempt) rejoin(ctx context.Context) (outcome, error) {
	q := a.at.lease.Queue()
	w, err := a.look(ctx, q)
	if core.IsKind(err, core.Transient) {
		return outcome{}, err // whether it runs is not known
	}
	if err == nil && w.Ready { // whatever was asked for meanwhile: it has begun
		if err := a.holdSince(ctx, w.Since); err != nil {
			return outcome{}, err
		}
		if err := a.launchedThere(ctx); err != nil {
			return outcome{}, err
		}
		return a.conclude(ctx, 0)
	}
	work, cancel := a.untilStop(ctx)
	defer cancel()
	if err == nil {
		err = a.await(work)
	}
	if err != nil {
		return a.abandon(ctx, err)
	}
	if err := a.launchedThere(ctx); err != nil {
		return outcome{}, err
	}
	return a.conclude(ctx, 0)
}

// cancelAutostart cancels an attempt that its site would start by itself. It reports
// whether the attempt has begun just now: then it continues. The run continues elsewhere
// only once it is certain that it has not begun here, however long that takes.
func (a *attempt) cancelAutostart(ctx context.Context, out outcome) (bool, error) {
	if a.rec.State == state.InQueue {
		a.rec.on(endsOn(out))
		a.rec.blame(out)
		if err := a.rec.put(ctx); err != nil {
			return false, err
		}
	}
	if a.rec.State == state.Ended { // its site is declared lost
		return false, errAway
	}
	recorded, since := false, time.Now()
	for pause := firstLook; ; pause = min(2*pause, longestLook(since)) {
		var (
			began bool
			err   error
		)
		if a.rec.State == state.Cancelling {
			began, err = a.beganThere(ctx)
		}
		if began {
			return true, err
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil && a.rec.declaredLost(ctx) {
			return false, errAway
		}
		if err == nil || a.stopAsked() || !core.IsKind(err, core.Transient) {
			a.rec.decide(out)
			a.rec.blame(out)
			if err := a.rec.put(ctx); err != nil {
				return false, err
			}
			if err = a.release(ctx); err == nil || a.stopAsked() || a.rec.declaredLost(ctx) {
				return false, nil // what could not be released is so by later commands
			}
		}
		if !recorded {
			recorded = true
			called := event.Cancelling{Site: a.at.site.Name}
			if err != nil {
				c := event.CauseOf(err)
				called.Cause = &c
			}
			a.rec.event(ctx, called)
		}
		work, cancel := a.untilStop(ctx)
		core.Sleep(work, pause) //nolint:errcheck // why it ended is seen above
		cancel()
	}
}

// beganThere reports whether the site has started the nodes. It may have, and the
// record of that fail. Nothing that can be used has begun where there is no lease,
// or one whose hosts are not what was asked for: its release ends what is there.
func (a *attempt) beganThere(ctx context.Context) (bool, error) {
	if a.at.lease == nil {
		return false, nil
	}
	w, err := ready(ctx, a.at.lease.Queue())
	if err != nil || !w.Ready {
		return false, err
	}
	if err := a.holdSince(ctx, w.Since); err != nil {
		return true, err
	}
	return true, a.launchedThere(ctx)
}
