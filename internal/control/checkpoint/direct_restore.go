package checkpoint

import (
	"cmp"
	"context"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// directRestore is a store whose newest checkpoint is on another site, too.
type directRestore struct {
	lentStore
	route transfer.Route
}

// Restore implements driver.Checkpoints.
func (s directRestore) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	t := to.(transfer.Tree)
	if !Last(k, s.before.Attempt) || k.Manifest.Bytes < cmp.Or(s.c.ReuseFrom, reuseFrom) {
		return s.Checkpoints.Restore(ctx, k, t)
	}
	return s.c.Site.Transfer(ctx, s.route, t, t.Restoring(), func(t transfer.Tree) error {
		if t.Direct() == nil {
			return s.fromStore(ctx, k, t)
		}
		err := s.transfer(ctx, k, t)
		if err == nil || core.IsKind(err, core.Lost) || ctx.Err() != nil {
			return err
		}
		s.c.Site.Record(ctx, event.DirectFailed{From: s.route.FromName, To: s.route.ToName, Cause: event.CauseOf(err)})
		return s.fromStore(ctx, k, t.Relayed())
	})
}

// transfer copies the tree directly, and compares it.
func (s directRestore) transfer(ctx context.Context, k driver.Checkpoint, t transfer.Tree) error {
	in, err := t.Receive(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	from := driver.Transfer{Remote: *s.before.Left, Via: t.Direct().Name, Progress: t.Direct().Progress}
	if err := s.before.Lease.DirectTransfer().Pass(ctx, from, in, t.Direct().Close); err != nil {
		return err
	}
	return s.c.same(ctx, k, t.Remote)
}
