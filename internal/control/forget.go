package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// Leaving is what of a run is left where it is when it is forgotten.
type Leaving struct {
	Sites bool // what a site does not give back now
	Store bool
	// OnlyCopies are removed as well, in place of a refusal: what exists nowhere else.
	OnlyCopies bool
}

// Forget removes a run that is over: what it has left on its sites and in its store
// first, then its directory, then its record, so that it can be asked for again. Busy:
// a site may still hold something of it.
func (c *Controller) Forget(ctx context.Context, run state.Run, leaving Leaving) error {
	if !leaving.OnlyCopies {
		if err := c.spareOnlyCopy(ctx, run, leaving); err != nil {
			return err
		}
	}
	held, err := c.heldOn(ctx, run)
	if err != nil {
		return err
	}
	if held != "" {
		c.say(protocol.PhaseRelease, fmt.Sprintf("removing what run %s has left on site %s", run.ID, held))
		// Until the record is gone: another controller that writes an attempt down
		// after that would bring half of it back.
		lock, err := c.lockTidied(ctx, run.ID)
		if err != nil {
			return err
		}
		defer lock.Unlock() //nolint:errcheck // its file goes with the run
		if err := c.giveBack(ctx, run, leaving.Sites); err != nil {
			return err
		}
	}
	left := ""
	if sub, err := SubmissionOf(run); err == nil && leaving.Store {
		left = sub.Job.Store
	}
	// On record first: what this does not get to is known to be the user's to lose.
	if err := c.Store.Forget(ctx, run.ID, left); err != nil {
		return err
	}
	if sub, err := SubmissionOf(run); err == nil && sub.Job.Store != "" && !leaving.Store {
		if err := c.emptyStore(ctx, &sub, run.ID); err != nil {
			return &core.Error{
				Kind: core.KindOf(err), Op: "remove what is in the store " + sub.Job.Store + " of run", Object: run.ID, Err: err,
				Remedy: core.Remedy(err) + " The run is kept until that is done; --leave-store forgets it without.",
			}
		}
	}
	return c.forgetHere(ctx, run)
}

// heldOn names the sites that may still hold something of a run, or gives "".
func (c *Controller) heldOn(ctx context.Context, run state.Run) (string, error) {
	attempts, err := c.Store.Attempts(ctx, run.ID)
	var sites []string
	for _, at := range attempts {
		if !at.Released() && !slices.Contains(sites, at.Site) {
			sites = append(sites, at.Site)
		}
	}
	return strings.Join(sites, " and "), err
}

// lockTidied takes a run that is over, from a controller that still tidies up after it
// as soon as that is done.
func (c *Controller) lockTidied(ctx context.Context, run string) (*state.Lock, error) {
	for begun := time.Now(); ; {
		lock, err := c.Store.Lock(run)
		switch {
		case !core.IsKind(err, core.Busy):
			return lock, err
		case time.Since(begun) > releaseTimeout:
			return nil, &core.Error{
				Kind: core.Busy, Op: "remove run", Object: run, Err: errors.New(c.Store.Who(run) + " removes what it has left on its sites"),
				Remedy: "Try again in a while; `bee show " + run + "` tells more.",
			}
		}
		if err := sleep(ctx, firstLook); err != nil {
			return nil, err
		}
	}
}

// giveBack releases what a run that is over has left on its sites. With leave it
// only tells what cannot be released.
func (c *Controller) giveBack(ctx context.Context, run state.Run, leave bool) error {
	_, cause := c.Drive(ctx, run.ID, nil)
	if cause == nil {
		return nil
	}
	held, err := c.heldOn(ctx, run)
	switch {
	case err != nil:
		return err
	case leave:
		c.say(protocol.PhaseRelease, fmt.Sprintf("warning: site %s may still hold something of run %s, which is left there (%v); `bee sweep` removes it once the site answers", held, run.ID, oneLine(cause)))
		return nil
	}
	return &core.Error{
		Kind: core.Busy, Op: "remove run", Object: run.ID, Err: fmt.Errorf("site %s may still hold something of it: %w", held, cause),
		Remedy: "The run is kept until that is removed, which `bee supervise` tries; --force forgets it now, and leaves what is there to `bee sweep`.",
	}
}

// forgetHere forgets a run that has nothing elsewhere.
func (c *Controller) forgetHere(ctx context.Context, run state.Run) error {
	if err := fsutil.RemoveAll(c.Store.RunDir(run.ID)); err != nil {
		return &core.Error{
			Kind: core.Permanent, Op: "remove run", Object: run.ID, Err: err,
			Remedy: "See who may remove that, and run `bee rm " + run.ID + "` again.",
		}
	}
	return c.Store.RemoveRun(ctx, run.ID)
}

func (c *Controller) emptyStore(ctx context.Context, sub *Submission, run string) error {
	place, err := c.OpenStore(sub.Job.Store)
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
func (c *Controller) sweepStores(ctx context.Context, stores []string, how Sweeping) ([]Swept, error) {
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
		some, err := c.sweepStore(ctx, name, known, how)
		found = append(found, some...)
		if err != nil {
			errs = append(errs, fmt.Errorf("store %s: %w", name, err))
		}
	}
	return found, errors.Join(errs...)
}

func (c *Controller) sweepStore(ctx context.Context, name string, known map[string]bool, how Sweeping) ([]Swept, error) {
	place, err := c.OpenStore(name)
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
		forgotten, err := c.Store.Forgotten(ctx, id)
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
