package control

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/state"
)

// ExportCheckpoint writes a checkpoint of a run into a new directory: see
// retention.Checkpoints.Export.
func (c *Controller) ExportCheckpoint(ctx context.Context, run state.Run, attempt int, dir string, damaged func(place string)) (Checkpoint, error) {
	sub, err := submission.Of(run)
	if err != nil {
		return Checkpoint{}, err
	}
	kept := c.Kept().Of(&run, sub.Job.Store, sub.StoreName)
	defer kept.Close()
	return kept.Export(ctx, attempt, dir, damaged)
}

// TryStore tries the store of a run before that is submitted. The error is the one by which
// the run would fail. Files of the trial are removed again.
func (c *Controller) TryStore(ctx context.Context, sub submission.Submission) error {
	if sub.Job.Store == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, candidate.Timeout)
	defer cancel()
	run := state.Run{ID: state.NewID(), Name: sub.Job.Name, State: state.Queued, Created: time.Now()}
	tried := c.Kept().Of(&run, sub.Job.Store, sub.StoreName)
	defer tried.Close()
	err := tried.Enter(ctx)
	if store, serr := tried.Store(); serr == nil { // else the first error is about that
		if rerr := store.Remove(ctx); err == nil {
			err = rerr
		}
	}
	return err
}
