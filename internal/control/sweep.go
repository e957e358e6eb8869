package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// releaseOwned gives back everything on a site that carries an owner's tag.
func (c *Controller) releaseOwned(ctx context.Context, p driver.Provider, q core.Owner) error {
	// Of a site that answers in part, what is found is released.
	handles, err := p.List(ctx, q)
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("list what is left: %w", err))
	}
	for _, h := range handles {
		errs = append(errs, releaseHandle(ctx, p, h))
	}
	return errors.Join(errs...)
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
		tried := time.Since(a.ReleaseTried).Abs() // a clock that was put back must not put it off for long
		if !slices.Contains(runs, a.Run) && tried > retryRelease {
			runs = append(runs, a.Run)
		}
	}
	return runs, nil
}

// Swept is one thing that a sweep removed, or would remove.
type Swept struct {
	// Site is the site's name, or the store; "home": this machine's records.
	Site  string `json:"site"`
	Owner string `json:"owner"`
	Error string `json:"error,omitempty"`
}

// Sweep removes from the sites what carries this installation's tag and
// belongs to no live run, and from the stores, and its own records, what belongs to no
// run that it knows. With dry it only tells.
func (c *Controller) Sweep(ctx context.Context, sites []spec.Site, stores []string, dry bool) ([]Swept, error) {
	var errs []error
	found, err := c.sweepStores(ctx, stores, dry)
	if err != nil {
		errs = append(errs, err)
	}
	here, err := c.sweepHere(ctx, dry)
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
		handles, err := p.List(ctx, core.Owner{User: c.Store.User()})
		if err != nil {
			errs = append(errs, fmt.Errorf("site %s: %w", site.Name, err))
		}
		for _, h := range handles {
			if c.live(ctx, h.Owner) {
				continue
			}
			s := Swept{Site: site.Name, Owner: h.Owner.String()}
			if !dry {
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

// sweepHere removes directories of runs that have no record: who made them, or was to
// remove them, did not get to that.
func (c *Controller) sweepHere(ctx context.Context, dry bool) (found []Swept, err error) {
	ids, err := c.Store.Unrecorded(ctx)
	for _, id := range ids {
		s := Swept{Site: spec.StoreHome, Owner: id}
		if !dry {
			if rerr := filestream.RemoveAll(c.Store.RunDir(id)); rerr != nil {
				s.Error = rerr.Error()
				err = errors.Join(err, rerr)
			}
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
	return o.Attempt > last.N || o.Attempt == last.N && !last.GivenUp
}
