package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// NotSuspended says why a run cannot be resumed.
func NotSuspended(run state.Run) error {
	return &core.Error{
		Kind: core.Invalid, Op: "resume run", Object: run.ID, Err: errors.New("it is " + string(run.State) + ", not suspended"),
		Remedy: "Only a suspended run can be resumed, and one that is queued sent to other sites, with --site; `bee show " + run.ID + "` shows its state.",
	}
}

// AskResume records that a suspended run shall continue from its checkpoint, on given sites,
// in that order, before those that it has; none: on these, and what its sites file has by
// now beside them. ApplyResume does that, or the next Drive.
func (c *Controller) AskResume(ctx context.Context, run state.Run, sites []spec.Site) error {
	if !run.State.Resumable() {
		return NotSuspended(run)
	}
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	_, err = requests{c.Store}.ask(ctx, run.ID, attempts, state.RequestResume, sites)
	return err
}

// ApplyResume queues a suspended run whose user has asked for that. Its caller has the run
// locked, and a Drive follows. A run of which it is not asked, or not any more, stays as it is.
func (c *Controller) ApplyResume(ctx context.Context, run state.Run) (state.Run, error) {
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
		again, err = leaveAllocations(run, spec.LoadSites)
	}
	if err == nil {
		again, err = queued(ctx, c.Store, again, r.Sites)
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

// Resume is AskResume and ApplyResume.
func (c *Controller) Resume(ctx context.Context, run state.Run, sites []spec.Site) (state.Run, error) {
	if err := c.AskResume(ctx, run, sites); err != nil {
		return run, err
	}
	return c.ApplyResume(ctx, run)
}

// queued returns a suspended run as it continues, on the sites that its user has named, as
// they are in the request, before those that it has.
func queued(ctx context.Context, store *state.Store, run state.Run, named json.RawMessage) (state.Run, error) {
	sub, err := SubmissionOf(run)
	if err != nil {
		return run, err
	}
	if sub.Job.SavesVM() {
		if err := alone(ctx, store, sub.machines(run.ID), run.ID); err != nil {
			return run, &core.Error{Kind: core.Busy, Op: "resume run", Object: run.ID, Err: err}
		}
	}
	if len(named) > 0 {
		var sites []spec.Site
		if err := json.Unmarshal(named, &sites); err != nil {
			return run, err
		}
		sub.prefer(sites)
	} else {
		sub.Sites = append(sub.Sites, sub.newSites(spec.LoadSites)...)
	}
	if run.Submission, err = json.Marshal(sub); err != nil {
		return run, err
	}
	run.State, run.Suspended, run.Kind, run.Message, run.Remedy = state.Queued, "", "", "", ""
	return run, nil
}

// InAllocation returns those sites, as they are in an allocation of Slurm's, that have its
// hosts and that the job of a run may use: what its user expects who resumes it there.
func InAllocation(run state.Run, sites []spec.Site, allocation string) ([]spec.Site, error) {
	sub, err := SubmissionOf(run)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(sites), func(s spec.Site) bool {
		return !s.Granted() || s.Slurm.Job != allocation || len(sub.Job.Sites) > 0 && !slices.Contains(sub.Job.Sites, s.Name)
	}), nil
}

// leaveAllocations replaces sites of a suspended run that were in allocations by those that
// its sites file has of the same names: the allocations' time is over.
func leaveAllocations(run state.Run, load func(string) (spec.SitesFile, error)) (state.Run, error) {
	sub, err := SubmissionOf(run)
	if err != nil || sub.SitesFile == "" {
		return run, err
	}
	f, err := load(sub.SitesFile)
	if err != nil {
		return run, nil // the run keeps the sites that it has
	}
	for i, old := range sub.Sites {
		at := slices.IndexFunc(f.Sites, func(n spec.Site) bool {
			return n.Name == old.Name && n.Provider == old.Provider && n.Login == old.Login
		})
		if at >= 0 && old.Granted() {
			sub.Sites[i].Slurm = f.Sites[at].Slurm
		}
	}
	run.Submission, err = json.Marshal(sub)
	return run, err
}

// Awaken continues those suspended runs that wait for a site, and whose sites file has one
// by now that they did not have. It returns them: each needs a Drive. A run that another
// process has is left to that.
func (c *Controller) Awaken(ctx context.Context) ([]state.Run, error) {
	runs, err := c.Store.Suspended(ctx)
	if err != nil {
		return nil, err
	}
	load := loadOnce()
	var (
		awake []state.Run
		errs  []error
	)
	for _, run := range runs {
		if run.Suspended != state.ReasonNoSite {
			continue
		}
		if sub, err := SubmissionOf(run); err != nil || len(sub.newSites(load)) == 0 {
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
func (c *Controller) awaken(ctx context.Context, id string) (state.Run, bool, error) {
	lock, err := c.Store.Locks().Acquire(id)
	if err != nil {
		return state.Run{}, false, err
	}
	defer lock.Unlock()
	run, err := c.Store.Run(ctx, id)
	if err != nil || run.State != state.Suspended || run.Suspended != state.ReasonNoSite || run.StopAsked {
		return run, false, err
	}
	sub, err := SubmissionOf(run)
	if err != nil {
		return run, false, err
	}
	sites := sub.newSites(spec.LoadSites)
	if run, err = queued(ctx, c.Store, run, nil); err != nil {
		return run, false, err
	}
	_, err = c.Store.Write(ctx, state.Change{Run: &run, Events: []event.Event{
		{Run: id, Fields: event.NewSites{SitesFile: sub.SitesFile, Sites: siteNames(sites)}},
	}})
	return run, err == nil, err
}

// newSites gives the sites that a run's sites file has for it by now, and that it does not
// have; none where the file cannot be read: the run waits on.
func (s *Submission) newSites(load func(string) (spec.SitesFile, error)) []spec.Site {
	if s.SitesFile == "" {
		return nil
	}
	f, err := load(s.SitesFile)
	if err != nil {
		return nil
	}
	sites, err := spec.SelectSites(&s.Job, f.Sites, f.Path)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(sites), func(n spec.Site) bool {
		return slices.ContainsFunc(s.Sites, func(old spec.Site) bool { return old.Name == n.Name })
	})
}

// loadOnce reads each sites file once: many runs have the same.
func loadOnce() func(string) (spec.SitesFile, error) {
	type read struct {
		f   spec.SitesFile
		err error
	}
	known := map[string]read{}
	return func(file string) (spec.SitesFile, error) {
		r, is := known[file]
		if !is {
			r.f, r.err = spec.LoadSites(file)
			known[file] = r
		}
		return r.f, r.err
	}
}
