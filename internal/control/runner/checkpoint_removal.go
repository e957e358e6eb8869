package runner

import (
	"context"
	"os"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// needless reports whether the checkpoints of a run hold nothing that is not here already:
// it has succeeded, and each of its outputs was there and has been collected.
func (d *drive) needless(ctx context.Context, out outcome) bool {
	c := d.sub.Job.Checkpoint
	if out.state != state.Succeeded || c == nil || c.Keep || len(d.sub.Job.Outputs) == 0 {
		return false
	}
	if _, err := os.Lstat(retention.UnnamedVolume(d.c.Store.RunDir(d.run.ID))); !os.IsNotExist(err) {
		return false // what was left behind is to be looked at
	}
	attempts, err := d.c.Store.Attempts(ctx, d.run.ID)
	if err != nil || len(attempts) == 0 {
		return false
	}
	last := attempts[len(attempts)-1]
	return last.Verdict == state.Completed && len(last.Unmatched) == 0
}

// removeCheckpoints removes what a run has in its store. What cannot be removed stays
// until `bee rm`.
func (d *drive) removeCheckpoints(ctx context.Context) {
	count, bytes, err := d.checkpoints().Remove(ctx, d.sub.StoreName != "")
	switch {
	case err != nil:
		d.record(ctx, event.CheckpointsStay{Store: d.sub.Job.Store, Cause: event.CauseOf(err)})
	case count > 0:
		d.record(ctx, event.CheckpointsRemoved{Count: count, Bytes: bytes, Store: d.sub.Job.Store})
	}
}
