package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state"
)

// sweepStores removes what runs that this installation has begun and still carries
// have in some stores, and in all that its runs name, of which there is no record any
// more.
func (c *Collector) sweepStores(ctx context.Context, stores []string, how Sweeping) ([]Swept, error) {
	runs, err := c.State.Runs(ctx, state.Filter{})
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, run := range runs {
		known[run.ID] = true
		if store, _ := c.StoreOf(run); store != "" {
			stores = append(stores, store)
		}
	}
	slices.Sort(stores)
	var (
		found []Swept
		errs  []error
	)
	for _, name := range slices.Compact(stores) {
		some, err := c.sweepStore(ctx, name, known, how)
		found = append(found, some...)
		if err != nil {
			errs = append(errs, fmt.Errorf("store %s: %w", name, err))
		}
	}
	return found, errors.Join(errs...)
}

func (c *Collector) sweepStore(ctx context.Context, name string, known map[string]bool, how Sweeping) ([]Swept, error) {
	place, err := c.Kept.Open(name)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	runs, err := place.Runs(ctx)
	if err != nil {
		return nil, err
	}
	var (
		found []Swept
		errs  []error
	)
	for _, run := range runs {
		user, id, _ := driver.ParseRunName(run)
		if user != c.State.User() || known[id] {
			continue
		}
		// Another installation may have continued a run that this one has begun.
		raw, err := place.Run(run).Noted(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if cmp.Or(retention.Holder(raw), user) != user {
			continue
		}
		s := Swept{Site: name, Owner: user + "/" + id}
		forgotten, err := c.State.Forgotten(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		switch {
		case how.Force:
		case !forgotten.Known:
			s.Kept = keptUnknown
		case forgotten.Store != "":
			s.Kept = keptWanted
		}
		if s.Kept == "" && !how.Dry {
			if err := place.Run(run).Remove(ctx); err != nil {
				s.Error = err.Error()
				errs = append(errs, err)
			}
		}
		found = append(found, s)
	}
	return found, errors.Join(errs...)
}
