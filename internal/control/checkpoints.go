package control

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Checkpoint is one of a run, for people.
type Checkpoint = retention.Checkpoint

// kept has the checkpoints of all runs.
func (c *Controller) kept() retention.Places {
	return retention.Places{State: c.Store, Open: c.OpenStore, OpenDir: func(dir string) driver.Checkpoints { return c.LocalStore(dir, c.pause) }}
}

// Checkpoints lists those that a run has, oldest first: what its store had when
// it was asked last.
func (c *Controller) Checkpoints(ctx context.Context, run string) ([]Checkpoint, error) {
	return c.kept().Listed(ctx, run)
}

// ExportCheckpoint writes a checkpoint of a run into a new directory: see
// retention.Checkpoints.Export.
func ExportCheckpoint(ctx context.Context, c *Controller, run state.Run, attempt int, dir string, damaged func(place string)) (Checkpoint, error) {
	sub, err := SubmissionOf(run)
	if err != nil {
		return Checkpoint{}, err
	}
	kept := c.kept().Of(&run, sub.Job.Store, sub.StoreName)
	defer kept.Close()
	return kept.Export(ctx, attempt, dir, damaged)
}

// checkpoints returns those of the run. It may be called at the same time.
func (r *controlled) checkpoints() *retention.Checkpoints {
	r.opening.Do(func() {
		r.opened = r.c.kept().Of(&r.run, r.sub.Job.Store, r.sub.StoreName)
		r.opened.Changed = func(ctx context.Context, place string) { r.recordSeen(ctx, event.CheckpointChanged{Place: place}) }
	})
	return r.opened
}

// TryStore tries the store of a run before that is submitted. The error is the one by which
// the run would fail. Files of the trial are removed again.
func TryStore(ctx context.Context, c *Controller, sub Submission) error {
	if sub.Job.Store == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, candidate.Timeout)
	defer cancel()
	run := state.Run{ID: state.NewID(), Name: sub.Job.Name, State: state.Queued, Created: time.Now()}
	tried := c.kept().Of(&run, sub.Job.Store, sub.StoreName)
	defer tried.Close()
	err := tried.Enter(ctx)
	if store, serr := tried.Store(); serr == nil { // else the first error is about that
		if rerr := store.Remove(ctx); err == nil {
			err = rerr
		}
	}
	return err
}
