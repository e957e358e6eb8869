package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Rented is a thing that the cloud of a site has for this installation.
type Rented struct {
	driver.Rented
	Site string
	// EndedBy is what will end it, and Kept why a removal keeps it that no live run owns; "": it would end it.
	EndedBy EndedBy
	Kept    string
}

// Live reports whether a live run owns it.
func (r Rented) Live() bool { return r.EndedBy == EndedByRun }

// EndedBy is what will end a thing that is rented.
type EndedBy string

// What ends rented things.
const (
	EndedByRun     EndedBy = "run"     // the controller of its run, with the run
	EndedByRelease EndedBy = "release" // a controller, which tries to release what its run has left
	EndedByItself  EndedBy = "itself"  // at its Ends
	EndedByMachine EndedBy = "machine" // the end of the machine that it goes with
	EndedByUser    EndedBy = "user"    // its user, who keeps it on purpose
	EndedByNobody  EndedBy = "nobody"
)

// cloudTime bounds how long a cloud is asked.
const cloudTime = 2 * time.Minute

// keptOwner is why what no owner is known of is kept.
const keptOwner = "nothing in the cloud shows whose it is"

// Clouds returns the sites whose machines are rented: those of the sites file, and those by other names, or of other
// accounts, where runs have not released all, as these were submitted. An error may come with a part of them.
func (c *Collector) Clouds(ctx context.Context, sites []spec.Site) ([]spec.Site, error) {
	held, err := c.State.Unreleased(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(sites)
	var errs []error
	for _, a := range held {
		run, err := c.State.Run(ctx, a.Run)
		if err != nil {
			if core.IsKind(err, core.NotFound) {
				continue
			}
			return nil, err
		}
		s := c.SiteOf(run, a.Site)
		if s == nil && !slices.ContainsFunc(sites, func(o spec.Site) bool { return o.Name == a.Site }) {
			errs = append(errs, unknownSite(a))
		}
		if s != nil && !slices.ContainsFunc(all, func(o spec.Site) bool { return o.Name == s.Name && o.Account() == s.Account() }) {
			all = append(all, *s)
		}
	}
	var clouds []spec.Site
	for _, s := range all {
		switch p, err := c.Provider(s); {
		case err != nil:
			errs = append(errs, fmt.Errorf("site %s: %w", s.Name, err))
		case p.Inventory() != nil:
			clouds = append(clouds, s)
		}
	}
	return clouds, errors.Join(errs...)
}

// unknownSite is the error of an attempt that has not released all at a site of which nothing is known.
func unknownSite(a state.Attempt) error {
	return &core.Error{
		Kind: core.Permanent, Op: "ask site", Object: a.Site, Err: fmt.Errorf("run %s has something there, and the site in its record cannot be read", a.Run),
		Remedy: "Name the site in your sites file as it was, or use the version of bee that has started the run.",
	}
}

// Rented lists what the clouds of sites have for this installation, once where several sites are of one account. An error
// may come with a part of it, where a cloud could not be asked.
func (c *Collector) Rented(ctx context.Context, clouds []spec.Site) ([]Rented, error) {
	lists, errs := make([][]driver.Rented, len(clouds)), make([]error, len(clouds))
	var wg sync.WaitGroup
	for i, site := range clouds {
		wg.Go(func() {
			errs[i] = core.Caught(func() (err error) {
				lists[i], err = c.inventory(ctx, site)
				return err
			})
			if errs[i] != nil {
				errs[i] = fmt.Errorf("site %s: %w", site.Name, errs[i])
			}
		})
	}
	wg.Wait()
	var all []Rented
	for i, list := range lists {
		for _, r := range list {
			own := Rented{Rented: r, Site: clouds[i].Name}
			at := slices.IndexFunc(all, func(o Rented) bool { return o.Kind == r.Kind && o.ID == r.ID })
			site, err := c.siteOf(ctx, r.Owner)
			if err != nil {
				return nil, err
			}
			switch {
			case at < 0:
				all = append(all, own)
			case site == own.Site: // and not another one of the same account
				all[at] = own
			}
		}
	}
	for i := range all {
		if err := c.explain(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(x, y Rented) int {
		return cmp.Or(cmp.Compare(x.Site, y.Site), cmp.Compare(x.Owner.Run, y.Owner.Run), x.Owner.Attempt-y.Owner.Attempt)
	})
	return all, errors.Join(errs...)
}

// inventory returns what a site's cloud has, with the price that the user has written.
func (c *Collector) inventory(ctx context.Context, site spec.Site) ([]driver.Rented, error) {
	p, err := c.Provider(site)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, cloudTime)
	defer cancel()
	list, err := p.Inventory().Rented(bounded, core.Owner{User: c.State.User()})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = &core.Error{Kind: core.Transient, Op: "list what is rented at site", Object: site.Name, Err: fmt.Errorf("the cloud has not answered within %s", cloudTime), Remedy: "Does the cloud answer (the network)?"}
	}
	var own []driver.Rented
	for _, r := range list {
		switch o := r.Owner; {
		case o.User == "" || o.User == c.State.User() && o.Complete():
		case o.User == c.State.User(): // a tag that was damaged
			r.Owner = core.Owner{}
		default: // a cloud that names anything else is not believed
			continue
		}
		if r.Price == nil {
			r.Price = priceOf(site, r)
		}
		own = append(own, r)
	}
	images, ierr := c.images(bounded, p)
	return append(own, images...), errors.Join(err, ierr)
}

// priceOf returns the price that the user has written of a machine, or of as many as are reserved; nil: none.
func priceOf(site spec.Site, r driver.Rented) *driver.Price {
	hosts := 1
	switch r.Kind {
	case driver.RentedMachine:
	case driver.RentedReservation:
		hosts = r.Hosts
	default:
		return nil
	}
	if r.Free || site.Price.Amount <= 0 || hosts == 0 {
		return nil
	}
	return &driver.Price{Amount: site.Price.Amount * float64(hosts), Currency: site.Price.Currency, Source: driver.PriceOfUser}
}

// siteOf returns the site of an attempt on record, or "".
func (c *Collector) siteOf(ctx context.Context, o core.Owner) (string, error) {
	at, err := c.attempt(ctx, o)
	if at == nil {
		return "", err
	}
	return at.Site, err
}

// attempt returns an attempt on record, or nil.
func (c *Collector) attempt(ctx context.Context, o core.Owner) (*state.Attempt, error) {
	attempts, err := c.State.Attempts(ctx, o.Run)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(attempts, func(a state.Attempt) bool { return a.N == o.Attempt })
	if at < 0 {
		return nil, nil
	}
	return &attempts[at], nil
}

// explain finds out what will end a thing, and whether a removal would.
func (c *Collector) explain(ctx context.Context, r *Rented) error {
	if r.Kind == driver.RentedImage { // of no run
		if r.EndedBy = EndedByNobody; r.Stays {
			r.EndedBy = EndedByUser
		}
		return nil
	}
	if r.Owner == (core.Owner{}) {
		r.EndedBy, r.Kept = EndedByNobody, keptOwner
		if r.Ends.After(time.Now()) {
			r.EndedBy = EndedByItself
		}
		return nil
	}
	if c.live(ctx, r.Owner) {
		r.EndedBy = EndedByRun
		return nil
	}
	known, err := c.explained(ctx, r.Owner.Run)
	if err != nil {
		return err
	}
	if !known {
		r.Kept = keptUnknown
	}
	at, err := c.attempt(ctx, r.Owner)
	switch {
	case err != nil:
		return err
	case at != nil && !at.Released():
		r.EndedBy = EndedByRelease
	case r.With != "":
		r.EndedBy = EndedByMachine
	case r.Ends.After(time.Now()) && !r.PowersOff: // else it has not ended as it should have
		r.EndedBy = EndedByItself
	default:
		r.EndedBy = EndedByNobody
	}
	return nil
}

// EndRented ends everything of owners at a site that no live run owns, as Sweep does.
func (c *Collector) EndRented(ctx context.Context, site spec.Site, owners []core.Owner, force bool) ([]Swept, error) {
	p, err := c.Provider(site)
	if err != nil {
		return nil, fmt.Errorf("site %s: %w", site.Name, err)
	}
	handles, err := driver.Owned(ctx, p, core.Owner{User: c.State.User()})
	handles = slices.DeleteFunc(handles, func(h core.Handle) bool { return !slices.Contains(owners, h.Owner) })
	if err != nil {
		err = fmt.Errorf("site %s: %w", site.Name, err)
	}
	found, serr := c.sweepHandles(ctx, site.Name, p, handles, Sweeping{Force: force})
	var ierr error
	if slices.Contains(owners, c.ownerOfImages()) {
		var images []Swept
		images, ierr = c.sweepImages(ctx, site, p, Sweeping{Force: force})
		found = append(found, images...)
	}
	return found, errors.Join(err, serr, ierr)
}
