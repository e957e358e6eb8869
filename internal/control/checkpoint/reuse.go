package checkpoint

import (
	"context"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// reusedStore is a store whose newest checkpoint is still on the attempt's own machine,
// where the one before has left it (ADR 26).
type reusedStore struct {
	lentStore
	volumeReuse driver.VolumeReuse
}

// Restore implements driver.Checkpoints. What turns out not to be the checkpoint is made so
// by the store: of a tree that is there, only what differs travels.
func (s reusedStore) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	t := to.(transfer.Tree)
	if !Last(k, s.before.Attempt) {
		return s.Checkpoints.Restore(ctx, k, t)
	}
	err := s.volumeReuse.ReuseVolume(ctx, *s.before.Left, t.Remote)
	if err == nil {
		err = s.c.same(ctx, k, t.Remote)
	}
	switch {
	case err == nil:
		*s.before.Left = ""
		s.c.Site.Record(ctx, event.VolumeReused{Of: k.Attempt})
		return nil
	case interrupted(ctx, err):
		return err
	}
	s.c.Site.Record(ctx, event.VolumeNotReused{Of: k.Attempt, Cause: event.CauseOf(err)})
	return s.fromStore(ctx, k, t)
}

// interrupted reports whether a transfer has ended for the connection, or for the user:
// another route does not help then.
func interrupted(ctx context.Context, err error) bool {
	return core.IsKind(err, core.Lost) || core.IsKind(err, core.Transient) || ctx.Err() != nil
}
