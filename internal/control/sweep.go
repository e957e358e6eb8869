package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// releaseOwned gives back everything on a site that carries an owner's tag.
func (c *Controller) releaseOwned(ctx context.Context, p driver.Provider, q core.Owner) error {
	// Of a site that answers in part, what is found is released.
	handles, err := owned(ctx, p, q)
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("list what is left: %w", err))
	}
	for _, h := range handles {
		errs = append(errs, releaseHandle(ctx, p, h))
	}
	return errors.Join(errs...)
}

// owned lists what on a site carries an owner's tag. A site that names anything else is not
// believed: releasing that would end another run's attempt.
func owned(ctx context.Context, p driver.Provider, q core.Owner) ([]core.Handle, error) {
	handles, err := p.List(ctx, q)
	return slices.DeleteFunc(handles, func(h core.Handle) bool { return !h.Owner.Matches(q) || h.Owner.Attempt < 1 }), err
}

func releaseHandle(ctx context.Context, p driver.Provider, h core.Handle) error {
	lease, err := p.Recover(ctx, h)
	if core.IsKind(err, core.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// retryRelease is the least time between two tries to clean up a site.
const retryRelease = time.Minute

// Orphans gives the runs that need a controller and have none: those that are
// not over, and those that still hold something on a site. One that waits for its secrets is
// only for who may have them.
func (c *Controller) Orphans(ctx context.Context) ([]string, error) {
	runs, err := c.needy(ctx)
	runs = slices.DeleteFunc(runs, func(id string) bool { return c.Store.Controlled(id) || c.waitsForSecrets(ctx, id) })
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	still, err := c.needy(ctx) // a controller that had one a moment ago may have brought it to its end since
	return slices.DeleteFunc(runs, func(id string) bool { return !slices.Contains(still, id) }), err
}

// needy gives the runs that need a controller.
func (c *Controller) needy(ctx context.Context) ([]string, error) {
	runs, err := c.Store.Unfinished(ctx)
	if err != nil {
		return nil, err
	}
	held, err := c.Store.Unreleased(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range held {
		if a.Unreadable != nil { // when it was tried is not known, and `bee rm` does it
			continue
		}
		tried := time.Since(a.ReleaseTried).Abs() // a clock that was put back must not put it off for long
		if !slices.Contains(runs, a.Run) && tried > retryRelease {
			runs = append(runs, a.Run)
		}
	}
	return runs, nil
}

// Swept is one thing that a sweep removed, would remove, or has found and kept.
type Swept struct {
	// Site is the site's name, or the store; "home": this machine's records.
	Site  string `json:"site"`
	Owner string `json:"owner"`
	// Kept is why it was not removed; "": it was, or would be.
	Kept  string `json:"kept,omitempty"`
	Error string `json:"error,omitempty"`
}

// Sweeping says how far a sweep goes.
type Sweeping struct {
	// Dry only reports.
	Dry bool
	// Force also removes what cannot be explained, and what may be the only copy.
	Force bool
}

// Reasons for which a sweep keeps something.
const (
	keptUnknown = "no record tells of its run"
	keptWanted  = "it was left in the store on purpose"
	keptFiles   = "it holds files, and no record tells of its run"
	keptAdopted = "its record lies beside it, and is taken over"
)

// Sweep removes from the sites what carries this installation's tag and belongs to no
// live run, and from the stores, and its own records, what belongs to no run that it
// knows. What cannot be explained, by a run or by one that was forgotten, is reported
// and kept.
func (c *Controller) Sweep(ctx context.Context, sites []spec.Site, stores []string, how Sweeping) ([]Swept, error) {
	var errs []error
	here, err := c.sweepHere(ctx, how) // first: a run that is adopted is known from then on
	if err != nil {
		errs = append(errs, err)
	}
	found, err := c.sweepStores(ctx, stores, how)
	if err != nil {
		errs = append(errs, err)
	}
	found = append(found, here...)
	for _, site := range sites {
		p, err := c.Provider(site)
		if err != nil {
			errs = append(errs, fmt.Errorf("site %s: %w", site.Name, err))
			continue
		}
		handles, err := owned(ctx, p, core.Owner{User: c.Store.User()})
		if err != nil {
			errs = append(errs, fmt.Errorf("site %s: %w", site.Name, err))
		}
		for _, h := range handles {
			if c.live(ctx, h.Owner) {
				continue
			}
			s := Swept{Site: site.Name, Owner: h.Owner.String()}
			known, err := c.explained(ctx, h.Owner.Run)
			switch {
			case err != nil:
				errs = append(errs, err)
				continue
			case !known && !how.Force:
				s.Kept = keptUnknown
			case !how.Dry:
				if err := releaseHandle(ctx, p, h); err != nil {
					s.Error = err.Error()
					errs = append(errs, fmt.Errorf("site %s: %w", site.Name, err))
				}
			}
			found = append(found, s)
		}
	}
	return found, errors.Join(errs...)
}

// explained reports whether this installation knows why something of a run is there: it
// has the run's record, or its user has forgotten the run.
func (c *Controller) explained(ctx context.Context, run string) (bool, error) {
	_, err := c.Store.Run(ctx, run)
	if err == nil {
		return true, nil
	}
	if !core.IsKind(err, core.NotFound) {
		return false, err
	}
	f, err := c.Store.Forgotten(ctx, run)
	return f.Known, err
}

// sweepHere removes directories of runs that have no record: who made them, or was to
// remove them, did not get to that. One with a record beside its files is adopted.
func (c *Controller) sweepHere(ctx context.Context, how Sweeping) (found []Swept, err error) {
	list, err := c.Store.Unrecorded(ctx)
	for _, u := range list {
		s := Swept{Site: spec.StoreHome, Owner: u.ID}
		var done error
		switch {
		case u.Adoptable && !how.Force:
			s.Kept = keptAdopted
			if !how.Dry {
				done = c.Store.Adopt(ctx, u.ID)
			}
		case !u.Spare && !how.Force:
			s.Kept = keptFiles
		case !how.Dry:
			done = fsutil.RemoveAll(c.Store.RunDir(u.ID))
		}
		if done != nil {
			s.Error = done.Error()
			err = errors.Join(err, done)
		}
		found = append(found, s)
	}
	return found, err
}

// live tells whether a thing's run is not over, or is being controlled, and may
// still use it: of attempts, only the last one is in use.
func (c *Controller) live(ctx context.Context, o core.Owner) bool {
	if o.Run == "" {
		return false
	}
	run, err := c.Store.Run(ctx, o.Run)
	if err != nil {
		return !core.IsKind(err, core.NotFound)
	}
	if (run.State.Final() || run.State == state.Suspended) && !c.Store.Controlled(o.Run) {
		return false
	}
	attempts, err := c.Store.Attempts(ctx, o.Run)
	if err != nil || o.Attempt == 0 || len(attempts) == 0 {
		return true
	}
	last := attempts[len(attempts)-1]
	return o.Attempt > last.N || o.Attempt == last.N && last.State != state.Releasing
}
