package gc

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Swept is one thing that a sweep removed, would remove, or has found and kept.
type Swept struct {
	// Site is the site's name, or the store; "home": this machine's records.
	Site  string `json:"site"`
	Owner string `json:"owner"`
	// Buffer is the burst buffer that it is, as HOST:DIRECTORY; "": it is none.
	Buffer string `json:"buffer,omitempty"`
	// Image is the image for rented machines of which an upload has left a part; "": it is none.
	Image string `json:"image,omitempty"`
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
	keptTicket  = "another machine controls its run by a ticket"
	keptLease   = "its attempt's lease was not released"
)

// Sweep removes from the sites what carries this installation's tag and belongs to no
// live run, and from the stores, and its own records, what belongs to no run that it
// knows. What cannot be explained, by a run or by one that was forgotten, is reported
// and kept.
func (c *Collector) Sweep(ctx context.Context, sites []spec.Site, stores []string, how Sweeping) ([]Swept, error) {
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
	for _, sweep := range []func(context.Context, Sweeping) ([]Swept, error){c.sweepPassed, c.sweepUploads} {
		some, err := sweep(ctx, how)
		if err != nil {
			errs = append(errs, err)
		}
		found = append(found, some...)
	}
	for _, site := range sites {
		p, err := c.Provider(site)
		if err != nil {
			errs = append(errs, fmt.Errorf("site %s: %w", site.Name, err))
			continue
		}
		handles, err := driver.Owned(ctx, p, core.Owner{User: c.State.User()})
		if err != nil {
			errs = append(errs, fmt.Errorf("site %s: %w", site.Name, err))
		}
		some, err := c.sweepHandles(ctx, site.Name, p, handles, how)
		if err != nil {
			errs = append(errs, err)
		}
		found = append(found, some...)
		left, err := c.sweepBuffers(ctx, site, p, notReleased(some), how)
		if err != nil {
			errs = append(errs, fmt.Errorf("site %s: %w", site.Name, err))
		}
		found = append(found, left...)
		images, err := c.sweepImages(ctx, site, p, how)
		if err != nil {
			errs = append(errs, err)
		}
		found = append(found, images...)
	}
	return found, errors.Join(errs...)
}

// sweepHandles removes of what a site has listed that which belongs to no live run.
func (c *Collector) sweepHandles(ctx context.Context, site string, p driver.Provider, handles []core.Handle, how Sweeping) ([]Swept, error) {
	var (
		found []Swept
		errs  []error
	)
	for _, h := range handles {
		if c.live(ctx, h.Owner) {
			continue
		}
		s := Swept{Site: site, Owner: h.Owner.String()}
		known, err := c.explained(ctx, h.Owner.Run)
		elsewhere := false
		if err == nil && (known || how.Force) {
			elsewhere, err = c.adoptedElsewhere(ctx, p, h)
		}
		switch {
		case err != nil:
			s.Error = err.Error()
			errs = append(errs, err)
		case elsewhere:
			s.Kept = keptTicket
		case !known && !how.Force:
			s.Kept = keptUnknown
		case !how.Dry:
			if _, err := driver.ReleaseHandle(ctx, p, h, c.State.User()); err != nil {
				s.Error = err.Error()
				errs = append(errs, fmt.Errorf("site %s: %w", site, err))
			}
		}
		found = append(found, s)
	}
	return found, errors.Join(errs...)
}

// notReleased are the owners of leases that a sweep has kept, or could not release: their nodes may run.
func notReleased(leases []Swept) map[string]bool {
	owners := map[string]bool{}
	for _, s := range leases {
		if s.Kept != "" || s.Error != "" {
			owners[s.Owner] = true
		}
	}
	return owners
}

// sweepPassed removes what was fetched of volumes for runs that are over by now, if the controller of the
// last of these died before it did so.
func (c *Collector) sweepPassed(ctx context.Context, how Sweeping) (found []Swept, err error) {
	runs, err := c.State.Runs(ctx, state.Filter{})
	for _, run := range runs {
		if !run.State.Final() || c.State.Locks().Controlled(run.ID) {
			continue
		}
		is, rerr := c.RemovePassed(ctx, run, how.Dry)
		if !is && rerr == nil {
			continue
		}
		s := Swept{Site: spec.StoreHome, Owner: run.ID}
		if rerr != nil {
			s.Error = rerr.Error()
			err = errors.Join(err, rerr)
		}
		found = append(found, s)
	}
	return found, err
}

// sweepUploads removes parts of objects that a controller which died has sent to buckets.
func (c *Collector) sweepUploads(ctx context.Context, how Sweeping) (found []Swept, err error) {
	runs, err := c.State.Runs(ctx, state.Filter{})
	for _, run := range runs {
		if c.State.Locks().Controlled(run.ID) {
			continue
		}
		objects, uerr := c.Uploads(run.ID)
		if len(objects) > 0 && !how.Dry {
			uerr = errors.Join(uerr, c.abortUploads(ctx, run.ID))
		}
		for _, o := range objects {
			s := Swept{Site: o, Owner: c.State.User() + "/" + run.ID}
			if uerr != nil {
				s.Error = uerr.Error()
			}
			found = append(found, s)
		}
		err = errors.Join(err, uerr)
	}
	return found, err
}

// abortUploads does so for a run that no controller begins to send meanwhile.
func (c *Collector) abortUploads(ctx context.Context, run string) error {
	lock, err := c.State.Locks().Acquire(run)
	if core.IsKind(err, core.Busy) {
		return nil // which does it by itself
	}
	if err != nil {
		return err
	}
	return errors.Join(c.AbortUploads(ctx, run), lock.Unlock())
}

// adoptedElsewhere reports whether a site has another installation on record for a lease.
func (c *Collector) adoptedElsewhere(ctx context.Context, p driver.Provider, h core.Handle) (bool, error) {
	if p.Foreign() == nil {
		return false, nil
	}
	lease, err := p.Recover(ctx, h)
	if core.IsKind(err, core.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lease.Disconnect()
	by, err := driver.AdoptedElsewhere(ctx, lease, c.State.User())
	return by.Installation != "", err
}

// explained reports whether this installation knows why something of a run is there: it
// has the run's record, or its user has forgotten the run.
func (c *Collector) explained(ctx context.Context, run string) (bool, error) {
	_, err := c.State.Run(ctx, run)
	if err == nil {
		return true, nil
	}
	if !core.IsKind(err, core.NotFound) {
		return false, err
	}
	f, err := c.State.Forgotten(ctx, run)
	return f.Known, err
}

// sweepHere removes directories of runs that have no record, as a process died before it
// recorded the run or removed its directory. One with a record beside its files is adopted.
func (c *Collector) sweepHere(ctx context.Context, how Sweeping) (found []Swept, err error) {
	list, err := c.State.Unrecorded(ctx)
	for _, u := range list {
		s := Swept{Site: spec.StoreHome, Owner: u.ID}
		var done error
		switch {
		case u.Adoptable && !how.Force:
			s.Kept = keptAdopted
			if !how.Dry {
				done = c.State.Adopt(ctx, u.ID)
			}
		case !u.Spare && !how.Force:
			s.Kept = keptFiles
		case !how.Dry:
			done = fsutil.RemoveAll(c.State.RunDir(u.ID))
		}
		if done != nil {
			s.Error = done.Error()
			err = errors.Join(err, done)
		}
		found = append(found, s)
	}
	return found, err
}

// live reports whether a thing's run is not over, or is being controlled, and may
// still use it: of attempts, only the last one is in use. A volume that is lent is left to a
// controller of its run, which alone decides so that no run is submitted meanwhile that reads it.
func (c *Collector) live(ctx context.Context, o core.Owner) bool {
	if o.Run == "" {
		return false
	}
	run, err := c.State.Run(ctx, o.Run)
	if core.IsKind(err, core.NotFound) { // hosts that a process holds for several runs
		return c.State.Locks().Controlled(o.Run)
	}
	if err != nil {
		return true
	}
	idle := run.State.Final() || run.State == state.Suspended && run.Suspended != state.ReasonTicket
	idle = idle && !c.State.Locks().Controlled(o.Run)
	attempts, err := c.State.Attempts(ctx, o.Run)
	if err != nil || o.Attempt == 0 || len(attempts) == 0 {
		return !idle
	}
	last := attempts[len(attempts)-1]
	if idle {
		return o.Attempt == last.N && run.State.Final() && last.LentToRuns()
	}
	return o.Attempt > last.N || o.Attempt == last.N && last.State != state.Releasing
}
