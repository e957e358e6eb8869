package runner

import (
	"context"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Kept has the checkpoints of all runs.
func (c *Runner) Kept() retention.Places {
	return retention.Places{State: c.Store, Open: c.OpenStore, OpenDir: func(dir string) driver.Checkpoints { return c.LocalStore(dir, c.pause) }}
}

// Checkpoints lists those that a run has, oldest first: what its store had when
// it was asked last.
func (c *Runner) Checkpoints(ctx context.Context, run string) ([]retention.Checkpoint, error) {
	return c.Kept().Listed(ctx, run)
}

// checkpoints returns those of the run. It may be called at the same time.
func (r *controlled) checkpoints() *retention.Checkpoints {
	r.opening.Do(func() {
		r.opened = r.c.Kept().Of(&r.run, r.sub.Job.Store, r.sub.StoreName)
		r.opened.Changed = func(ctx context.Context, place string) { r.recordSeen(ctx, event.CheckpointChanged{Place: place}) }
	})
	return r.opened
}
