package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// Leaving is what of a run is left where it is when it is forgotten.
type Leaving struct {
	Sites bool // what a site does not release now
	Store bool
	// OnlyCopies are removed as well, in place of a refusal: what exists nowhere else.
	OnlyCopies bool
}

// Forget removes a run that is over: what it has left on its sites and in its store
// first, then its directory, then its record, so that it can be asked for again. Busy:
// a site may still hold something of it.
func (c *Collector) Forget(ctx context.Context, run state.Run, leaving Leaving) error {
	if !leaving.OnlyCopies {
		if err := c.spareOnlyCopy(ctx, run, leaving); err != nil {
			return err
		}
	}
	waiting, err := c.Needed(ctx, run.ID)
	if err != nil {
		return err
	}
	if waiting != "" {
		return &core.Error{
			Kind: core.Busy, Op: "remove run", Object: run.ID, Err: fmt.Errorf("run %s waits for how it ended, or reads its volume", waiting),
			Remedy: "Wait until that one has begun, or is over if it reads the volume. Or end it: `bee stop " + waiting + "`.",
		}
	}
	held, err := c.heldOn(ctx, run)
	if err != nil {
		return err
	}
	if held != "" {
		c.Report(fmt.Sprintf("removing what run %s has left on site %s", run.ID, held))
		// Until the record is gone: another controller that writes an attempt down
		// after that would bring half of it back.
		lock, err := c.lockTidied(ctx, run.ID)
		if err != nil {
			return err
		}
		defer lock.Unlock()
		if err := c.giveBack(ctx, run, leaving.Sites); err != nil {
			return err
		}
	}
	store, name := c.StoreOf(run)
	left := ""
	if leaving.Store {
		left = store
	}
	// On record first: a sweep may then remove what is left where this process dies.
	if err := c.State.Forget(ctx, run.ID, left); err != nil {
		return err
	}
	if store != "" && !leaving.Store {
		if err := c.emptyStore(ctx, run.ID, store, name); err != nil {
			return &core.Error{
				Kind: core.KindOf(err), Op: "remove what is in the store " + store + " of run", Object: run.ID, Err: err,
				Remedy: core.Remedy(err) + " The run is kept until that is done; --leave-store forgets it without.",
			}
		}
	}
	if err := c.AbortUploads(ctx, run.ID); err != nil {
		c.Report(fmt.Sprintf("warning: parts of objects of run %s stay in their bucket: %v", run.ID, err))
	}
	return c.forgetHere(ctx, run)
}

// heldOn names the sites that may still hold something of a run, or gives "".
func (c *Collector) heldOn(ctx context.Context, run state.Run) (string, error) {
	attempts, err := c.State.Attempts(ctx, run.ID)
	var sites []string
	for _, at := range attempts {
		if !at.Released() && !slices.Contains(sites, at.Site) {
			sites = append(sites, at.Site)
		}
	}
	return strings.Join(sites, " and "), err
}

// lockLook is the pause between two tries to lock a run, and lockTimeout bounds all of them.
const (
	lockLook    = 100 * time.Millisecond
	lockTimeout = time.Minute
)

// lockTidied locks a run that is over. Where a controller still cleans up after it,
// lockTidied waits for the end of that.
func (c *Collector) lockTidied(ctx context.Context, run string) (*state.Lock, error) {
	pause := fsutil.Backoff{First: lockLook, Longest: lockLook}
	for begun := time.Now(); ; {
		lock, err := c.State.Locks().Acquire(run)
		switch {
		case !core.IsKind(err, core.Busy):
			return lock, err
		case time.Since(begun) > lockTimeout:
			return nil, &core.Error{
				Kind: core.Busy, Op: "remove run", Object: run, Err: errors.New(c.State.Locks().Who(run) + " removes what it has left on its sites"),
				Remedy: "Try again in a while; `bee show " + run + "` tells more.",
			}
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// giveBack releases what a run that is over has left on its sites. With leave,
// failures are only reported.
func (c *Collector) giveBack(ctx context.Context, run state.Run, leave bool) error {
	cause := c.Release(ctx, run.ID)
	if cause == nil {
		return nil
	}
	held, err := c.heldOn(ctx, run)
	switch {
	case err != nil:
		return err
	case leave:
		c.Report(fmt.Sprintf("warning: site %s may still hold something of run %s, which is left there (%v); `bee sweep` removes it once the site answers", held, run.ID, strings.ReplaceAll(cause.Error(), "\n", "; ")))
		return nil
	}
	return &core.Error{
		Kind: core.Busy, Op: "remove run", Object: run.ID, Err: fmt.Errorf("site %s may still hold something of it: %w", held, cause),
		Remedy: "The run is kept until that is removed, which `bee supervise` tries; --force forgets it now, and leaves what is there to `bee sweep`.",
	}
}

// forgetHere forgets a run that has nothing elsewhere.
func (c *Collector) forgetHere(ctx context.Context, run state.Run) error {
	if err := fsutil.RemoveAll(c.State.RunDir(run.ID)); err != nil {
		return &core.Error{
			Kind: core.Permanent, Op: "remove run", Object: run.ID, Err: err,
			Remedy: "See who may remove that, and run `bee rm " + run.ID + "` again.",
		}
	}
	return c.State.RemoveRun(ctx, run.ID)
}

func (c *Collector) emptyStore(ctx context.Context, run, name, as string) error {
	place, err := c.Kept.Open(name)
	if err != nil {
		return err
	}
	kept := c.Kept.Of(&state.Run{ID: run}, name, as)
	kept.Use(place)
	defer kept.Close()
	store, err := kept.Store()
	if err != nil {
		return err
	}
	switch err := kept.CheckHolder(ctx, store); {
	case errors.Is(err, retention.ErrTaken): // it is no longer ours
		return nil
	case err != nil && !core.IsKind(err, core.Transient):
		return kept.Explain(err)
	}
	if err := store.Remove(ctx); err != nil {
		return kept.Explain(err)
	}
	return nil
}
