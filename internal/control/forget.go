package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// Forget removes a run that is over: what it has in its store first, then its
// directory, then its record, so that it can be asked for again.
func (c *Controller) Forget(ctx context.Context, run state.Run) error {
	if sub, err := SubmissionOf(run); err == nil && sub.Job.Store != "" {
		if err := c.emptyStore(ctx, &sub, run.ID); err != nil {
			return &core.Error{Kind: core.KindOf(err), Op: "remove what is in the store " + sub.Job.Store + " of run", Object: run.ID, Err: err,
				Remedy: core.Remedy(err) + " The run is kept until that is done; --leave-store forgets it without."}
		}
	}
	return c.ForgetHere(ctx, run)
}

// ForgetHere is Forget without what the run has in its store.
func (c *Controller) ForgetHere(ctx context.Context, run state.Run) error {
	return errors.Join(os.RemoveAll(c.Store.RunDir(run.ID)), c.Store.RemoveRun(ctx, run.ID))
}

func (c *Controller) emptyStore(ctx context.Context, sub *Submission, run string) error {
	place, err := c.Place(sub.Job.Store)
	if err != nil {
		return err
	}
	defer place.Close()
	d := &drive{c: c, sub: *sub, run: state.Run{ID: run}, where: place}
	store, err := d.store()
	if err != nil {
		return err
	}
	switch err := d.mine(ctx, store); {
	case errors.Is(err, errTaken): // it is no longer ours
		return nil
	case err != nil && !core.IsKind(err, core.Transient):
		return d.explained(err)
	}
	if err := store.Remove(ctx); err != nil {
		return d.explained(err)
	}
	return nil
}

// sweepStores removes what runs that this installation has begun and still carries
// have in some stores, and in all that its runs name, of which there is no record any
// more.
func (c *Controller) sweepStores(ctx context.Context, stores []string, dry bool) ([]Swept, error) {
	runs, err := c.Store.Runs(ctx, state.Filter{})
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, run := range runs {
		known[run.ID] = true
		if sub, err := SubmissionOf(run); err == nil && sub.Job.Store != "" {
			stores = append(stores, sub.Job.Store)
		}
	}
	slices.Sort(stores)
	var (
		found []Swept
		errs  []error
	)
	for _, name := range slices.Compact(stores) {
		some, err := c.sweepStore(ctx, name, known, dry)
		found = append(found, some...)
		if err != nil {
			errs = append(errs, fmt.Errorf("store %s: %w", name, err))
		}
	}
	return found, errors.Join(errs...)
}

func (c *Controller) sweepStore(ctx context.Context, name string, known map[string]bool, dry bool) ([]Swept, error) {
	place, err := c.Place(name)
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
		user, id, _ := checkpoint.ParseRunName(run)
		if user != c.Store.User() || known[id] {
			continue
		}
		// Another installation may have gone on with what this one has begun.
		raw, err := place.Run(run).Noted(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if cmp.Or(holder(raw), user) != user {
			continue
		}
		s := Swept{Site: name, Owner: user + "/" + id}
		if !dry {
			if err := place.Run(run).Remove(ctx); err != nil {
				s.Error = err.Error()
				errs = append(errs, err)
			}
		}
		found = append(found, s)
	}
	return found, errors.Join(errs...)
}
