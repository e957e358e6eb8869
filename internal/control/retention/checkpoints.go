package retention

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/store"
)

// Checkpoints are those of one run. Its methods may be called at the same time, but Close.
type Checkpoints struct {
	Places
	// Name is the run's name in its store.
	Name string
	// Changed is called with the place of each checkpoint of a store that is another than was
	// kept there. nil: nobody asks.
	Changed   func(ctx context.Context, place string)
	run       *state.Run
	store     string       // "": the submitting machine
	opened    driver.Store // once it is
	digesting sync.Mutex   // guards the note of digests
}

// Use has the checkpoints of a store that is open already. Close closes it.
func (c *Checkpoints) Use(opened driver.Store) { c.opened = opened }

// Opened returns the store, where it is open.
func (c *Checkpoints) Opened() driver.Store { return c.opened }

// Store returns the run's place in its store, or the directory on the submitting machine.
func (c *Checkpoints) Store() (driver.Checkpoints, error) {
	if c.store == "" {
		return c.OpenDir(c.Dir(c.run.ID)), nil
	}
	if c.opened == nil {
		place, err := c.Open(c.store)
		if err != nil {
			return nil, err
		}
		c.opened = place
	}
	return c.opened.Run(c.Name), nil
}

// Close closes the store, if it is open.
func (c *Checkpoints) Close() {
	if c.opened != nil {
		c.opened.Close()
		c.opened = nil
	}
}

// Whole lists the run's checkpoints in its store, oldest first, but those that are
// known to be broken.
func (c *Checkpoints) Whole(ctx context.Context) ([]driver.Checkpoint, error) {
	list, err := c.All(ctx)
	return slices.DeleteFunc(list, func(k driver.Checkpoint) bool { return k.Broken }), err
}

// Known returns the run's store once that is known to have the run: one that has lost
// its file system, or was taken for another, must not look like one that has no
// checkpoint.
func (c *Checkpoints) Known(ctx context.Context) (driver.Checkpoints, error) {
	store, err := c.Store()
	if err == nil && c.store != "" {
		err = c.CheckHolder(ctx, store)
	}
	return store, err
}

// All lists the run's checkpoints in its store, oldest first.
func (c *Checkpoints) All(ctx context.Context) ([]driver.Checkpoint, error) {
	store, err := c.Known(ctx)
	var list []driver.Checkpoint
	if err == nil {
		list, err = store.List(ctx)
	}
	if err == nil {
		list, err = c.compared(ctx, list)
	}
	if err != nil {
		return nil, c.Failed("list the checkpoints of run", err)
	}
	return list, nil
}

// Enter makes the run known to its store, before anything is computed that
// could not be kept there.
func (c *Checkpoints) Enter(ctx context.Context) error {
	if c.store == "" {
		return nil
	}
	store, err := c.Store()
	if err == nil {
		err = c.Note(ctx, store)
	}
	if err != nil {
		err = c.Explain(err)
		return &core.Error{Kind: core.KindOf(err), Op: "use the store", Object: c.store, Err: err, Remedy: core.Remedy(err)}
	}
	return nil
}

// Explain adds the remedy for an error of the store, where it has none.
func (c *Checkpoints) Explain(err error) error {
	if core.OwnRemedy(err) != "" {
		return err
	}
	return store.Explain(c.place(), err)
}

func (c *Checkpoints) place() string {
	if c.store == "" {
		return c.Dir(c.run.ID)
	}
	return c.store
}

// Failed returns the error of an operation at the store, which loses nothing.
func (c *Checkpoints) Failed(op string, err error) error {
	if core.Interrupted(err) {
		return err
	}
	err = c.Explain(err)
	remedy := core.Remedy(err)
	if remedy != "" {
		remedy += " "
	}
	return &core.Error{
		Kind: core.KindOf(err), Op: op, Object: c.run.ID + " " + c.Text(), Err: err,
		Remedy: remedy + "Nothing is lost: what is not there yet stays on its site. `bee supervise` tries again.",
	}
}

// KeptText names a checkpoint and its place, for people.
func (c *Checkpoints) KeptText(m driver.Manifest) string {
	return fmt.Sprintf("checkpoint of attempt %d is %s, files: %d", m.Attempt, c.Text(), len(m.Files))
}

// Text is the store, for people.
func (c *Checkpoints) Text() string {
	if c.store == "" {
		return "on the submitting machine"
	}
	return "in the store " + c.store
}
