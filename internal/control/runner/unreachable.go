package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// A site may stop answering for good while it still holds something of a run:
// when the run may continue without it, and how the rest is released once the site
// answers again.

// unreachableLimit is for how long a site that does not answer is waited for when
// only outputs and logs of an attempt that has ended are left there, and the run
// can continue from a checkpoint in its store.
const unreachableLimit = 5 * time.Minute

// unanswered continues an attempt of another controller's whose site does
// not answer, where that is safe: where nothing of it can compute there, and
// nothing is there that the run needs.
func (a *attempt) unanswered(ctx context.Context, cause error) (outcome, error) {
	switch {
	case a.rec.cancelled(): // it may start there by itself
	case a.rec.Decided(): // only the release is left
		return a.releasing.finishUnanswered(ctx, remembered(a.rec.Attempt), cause)
	case a.rec.autostarted() && !a.rec.Launched(): // it may start there by itself
	case !a.rec.Launched() && a.stopAsked():
		return a.releasing.finishUnanswered(ctx, outcome{state: state.Stopped, err: errStopped()}, cause)
	case !a.rec.Launched(): // nothing has ever run there
		return a.releasing.finishUnanswered(ctx, outcome{again: true}, cause)
	}
	a.reach.reportWaiting(ctx, cause)
	return outcome{}, &core.Error{Kind: core.KindOf(cause), Op: "recover site", Object: a.at.site.Name, Err: cause, Remedy: report.WithoutSite(a.run.ID) + "."}
}

// reportWaiting notes that the run waits for its site, why, and what its user can do.
func (r *reachability) reportWaiting(ctx context.Context, cause error) {
	u := r.waitsFor(ctx)
	u.Site, u.Cause = r.at.site.Name, event.CauseOf(cause)
	r.rec.event(ctx, u)
}

// waitsFor returns why the run does not continue without its site.
func (r *reachability) waitsFor(ctx context.Context) event.Unreachable {
	switch {
	case r.rec.autostarted() && !r.rec.Launched():
		return event.Unreachable{Wait: event.WaitAutostart}
	case r.rec.Result == state.Checkpointed:
		return event.Unreachable{Wait: event.WaitCheckpoint}
	case r.rec.Result.Reported():
		return event.Unreachable{Wait: event.WaitOutputs}
	}
	left, bounded := r.rec.canComputeFor(ctx)
	switch {
	case !bounded:
		return event.Unreachable{Wait: event.WaitTask}
	case left > 0:
		return event.Unreachable{Wait: event.WaitTask, Until: time.Now().Add(left), Checkpoints: r.rec.of.sub.Job.Checkpoint != nil}
	}
	return event.Unreachable{Wait: event.WaitResult}
}

// errAway is the error of an attempt that is not followed any more, as it is dispensable.
var errAway = errors.New("the site has not answered for too long")

// silenceBeforeReport is how long there is no line to a head before a run's history says so.
const silenceBeforeReport = 10 * time.Second

// tooLong reports whether a site has not answered for so long that the run continues
// without it. That never is so where the run needs files of the site, or where the site
// has suspended its hosts, unless the user has declared the site lost. An error means that
// it is not known, or that the run has to wait.
func (r *reachability) tooLong(ctx context.Context, cause error) (bool, error) {
	if r.rec.declaredLost(ctx) {
		return true, nil
	}
	if r.suspended {
		return false, nil
	}
	is, err := r.dispensable(ctx)
	if err != nil && !core.IsKind(err, core.Transient) { // else the store may be asked at the next look
		return false, err
	}
	switch {
	case is && !r.rec.Fenced.IsZero():
		return true, r.checkLocalCopy(ctx)
	case is:
		return r.overdue(ctx, cause)
	}
	if r.unreachable(&r.silent); r.fence(ctx) {
		return r.tooLong(ctx, cause)
	}
	over := r.rec.timeOver(ctx) // which is news
	if r.news(over) && time.Since(r.silent) >= silenceBeforeReport {
		r.report(over)
		r.reportWaiting(ctx, cause)
	}
	return false, nil
}

// Times of hosts that do not answer, and that their site can stop.
const (
	fenceLimit = 15 * time.Minute
	fencePause = time.Minute // between two tries
)

// fence has the site stop the hosts of an attempt that have not answered for fenceLimit, though the site has, where the
// run can continue from a checkpoint. It reports whether nothing computes there any more.
func (r *reachability) fence(ctx context.Context) bool {
	if r.at.lease == nil || r.unanswered < fenceLimit || !r.fenced.IsZero() && time.Since(r.fenced) < fencePause {
		return false
	}
	fencer := r.at.lease.Fencer()
	if fencer == nil || r.rec.of.sub.Job.Checkpoint == nil || r.rec.Result.Reported() || !r.rec.Fenced.IsZero() {
		return false
	}
	r.fenced = time.Now()
	if list, err := r.rec.of.checkpoints().Whole(ctx); err != nil || len(list) == 0 {
		return false
	}
	err := r.checkLocalCopy(ctx)
	if err == nil {
		err = fencer.Fence(ctx)
	}
	if err == nil {
		r.rec.Fenced = time.Now()
		if err = r.rec.put(context.WithoutCancel(ctx)); err != nil {
			r.rec.Fenced = time.Time{}
		}
	}
	if err != nil {
		r.rec.of.c.Log.Debug("the hosts were not stopped", "run", r.rec.of.run.ID, "site", r.at.site.Name, "err", err)
		return false
	}
	r.rec.event(ctx, event.Fenced{Site: r.at.site.Name, Limit: event.Seconds(fenceLimit)})
	return true
}

// overdue is tooLong for an attempt that is known to be dispensable.
func (r *reachability) overdue(ctx context.Context, cause error) (bool, error) {
	if r.unneeded.IsZero() {
		r.unreachable(&r.unneeded)
		r.rec.event(ctx, event.Unneeded{
			Site: r.at.site.Name, Cause: event.CauseOf(cause), Ended: r.rec.Result.Reported(), Store: r.rec.of.sub.Job.Store,
			Until: time.Now().Add(unreachableLimit), Limit: event.Seconds(unreachableLimit),
		})
	}
	if time.Since(r.unneeded) < unreachableLimit {
		return false, nil
	}
	return true, r.checkLocalCopy(ctx)
}

// checkLocalCopy fails where the copy of the attempt's checkpoint on the submitting machine
// is damaged: the only good one is on its site then. A store elsewhere is trusted.
func (r *reachability) checkLocalCopy(ctx context.Context) error {
	if r.rec.Result.Reported() && r.rec.Result != state.Checkpointed || r.rec.of.sub.Job.Store != "" {
		return nil
	}
	list, err := r.rec.of.checkpoints().Whole(ctx)
	if r.rec.Result == state.Checkpointed && len(list) > 0 {
		list = list[len(list)-1:]
	}
	home := r.rec.of.c.Kept().OpenDir(r.rec.of.c.Kept().Dir(r.rec.of.run.ID))
	if err == nil && !slices.ContainsFunc(list, func(k driver.Checkpoint) bool { return home.Check(ctx, k) == nil }) {
		err = &core.Error{Kind: core.Transient, Op: "continue without site", Object: r.at.site.Name, Err: errors.New("the checkpoint on the submitting machine is damaged, and the only good copy is there"), Remedy: "Wait until the site answers, or `bee stop --site-lost RUN` ends the run without it."}
	}
	return err
}

// dispensable reports whether the attempt has ended, and the run's store has all that the
// run needs of it to continue.
func (r *reachability) dispensable(ctx context.Context) (bool, error) {
	saved, over := r.rec.Result == state.Checkpointed, r.rec.Result.Reported()
	if r.rec.of.sub.Job.Checkpoint == nil || r.rec.ExitCode != nil || over && !saved && r.rec.Result != state.Lost || !over && !r.rec.timeOver(ctx) {
		return false, nil
	}
	if r.newest == nil || time.Since(r.listed) >= declaredLostLook {
		list, err := r.rec.of.checkpoints().Whole(ctx)
		if err != nil || len(list) == 0 {
			return false, err
		}
		r.newest, r.listed = &list[len(list)-1].Generation, time.Now()
	}
	return !saved || r.newest.Attempt == r.rec.N && r.newest.Snapshot == 0, nil
}

// unsure reports whether it is not known just now if an attempt is dispensable, as the store
// does not answer. One broken connection must not have the wait for its site begin again.
func unsure(err error, begun time.Time) bool {
	return core.IsKind(err, core.Transient) && time.Since(begun) < 2*unreachableLimit
}

// continues reports whether a run continues after an outcome, by itself or once its
// user resumes it.
func continues(out outcome) bool { return out.moved || out.state == state.Suspended }

// releaseLater tries to release what an attempt has left behind after a first pause, and
// again now and then, until this controller is done with the run.
func (d *drive) releaseLater(rec state.Attempt, first time.Duration) {
	d.behind.Go(func() {
		d.guard(func() {
			pause := fsutil.Backoff{First: firstRest, Longest: longestRest, Exact: true}
			for wait := first; core.Sleep(d.during, wait) == nil; wait = pause.Next() {
				err := d.cleanUp(d.during, rec)
				if err == nil {
					d.recordOf(d.during, rec.N, event.ReleasedLate{Site: rec.Site})
					return
				}
				d.c.Log.Debug("what was left behind is still there", "run", d.run.ID, "site", rec.Site, "err", err)
			}
		})
	})
}
