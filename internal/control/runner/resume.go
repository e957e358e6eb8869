package runner

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/control/request"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// ApplyResume queues a suspended run whose user has asked for that. Its caller has the run
// locked, and a Drive follows. A run of which it is not asked, or not any more, stays as it is.
func (c *Runner) ApplyResume(ctx context.Context, run state.Run) (state.Run, error) {
	if !run.State.Resumable() {
		return run, nil
	}
	r, err := c.Store.Requests().Open(ctx, run.ID, state.RequestResume)
	if err != nil || r == nil {
		return run, err
	}
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return run, err
	}
	if n := len(attempts); n > 0 && attempts[n-1].N != r.Attempt { // it was resumed since
		return run, c.Store.Requests().Answer(ctx, r.ID, state.RequestOvertaken, "")
	}
	again := run
	if len(r.Sites) == 0 {
		again, err = submission.RefreshSites(run, spec.LoadSites)
	}
	if err == nil {
		again, err = submission.Resumed(ctx, c.Store, again, r.Sites)
	}
	if err != nil {
		return run, errors.Join(err, c.Store.Requests().Answer(context.WithoutCancel(ctx), r.ID, state.RequestRefused, core.Printable(err.Error(), maxText)))
	}
	r.Result = state.RequestDone
	if _, err := c.Store.Write(ctx, state.Change{Run: &again, Answers: []state.Request{*r}}); err != nil {
		return run, err
	}
	fsutil.TryRemove(StackPath(c.Store.RunDir(run.ID))) // it may never have been set aside
	return again, nil
}

// Resume queues a suspended run, on given sites before those that it has: see Requests.Resume.
func (c *Runner) Resume(ctx context.Context, run state.Run, sites []spec.Site) (state.Run, error) {
	if err := (request.Requests{Store: c.Store}).Resume(ctx, run, sites); err != nil {
		return run, err
	}
	return c.ApplyResume(ctx, run)
}

// Awaken continues those suspended runs that wait for a site, and whose sites file has one
// by now that they did not have. It returns them: each needs a Drive. A run that another
// process has is left to that.
func (c *Runner) Awaken(ctx context.Context) ([]state.Run, error) {
	runs, err := c.Store.Suspended(ctx)
	if err != nil {
		return nil, err
	}
	load := submission.LoadOnce()
	var (
		awake []state.Run
		errs  []error
	)
	for _, run := range runs {
		if run.Suspended != state.ReasonNoSite {
			continue
		}
		if sub, err := submission.Of(run); err != nil || len(sub.NewSites(load)) == 0 {
			continue // no bee of this version's, or one that waits on
		}
		again, is, err := c.awaken(ctx, run.ID)
		if err != nil && !core.IsKind(err, core.Busy) {
			errs = append(errs, err)
		}
		if is {
			awake = append(awake, again)
		}
	}
	return awake, errors.Join(errs...)
}

// awaken continues one of them.
func (c *Runner) awaken(ctx context.Context, id string) (state.Run, bool, error) {
	lock, err := c.Store.Locks().Acquire(id)
	if err != nil {
		return state.Run{}, false, err
	}
	defer lock.Unlock()
	run, err := c.Store.Run(ctx, id)
	if err != nil || run.State != state.Suspended || run.Suspended != state.ReasonNoSite || run.StopAsked {
		return run, false, err
	}
	sub, err := submission.Of(run)
	if err != nil {
		return run, false, err
	}
	sites := sub.NewSites(spec.LoadSites)
	if run, err = submission.Resumed(ctx, c.Store, run, nil); err != nil {
		return run, false, err
	}
	_, err = c.Store.Write(ctx, state.Change{Run: &run, Events: []event.Event{
		{Run: id, Fields: event.NewSites{SitesFile: sub.SitesFile, Sites: submission.SiteNames(sites)}},
	}})
	return run, err == nil, err
}
