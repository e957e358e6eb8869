package control

import (
	"context"
	"os"
	"path"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// reusedStore is a store whose newest checkpoint lies on the attempt's own machine still,
// where the one before has left it (ADR 26).
type reusedStore struct {
	driver.Checkpoints
	a, before   *attempt
	volumeReuse driver.VolumeReuse
}

// volumeReuse tells whether the attempt is on the machine on which the one before has left what
// it had.
func (a *attempt) volumeReuse() (driver.VolumeReuse, bool) {
	before := a.runner.lent()
	if before == nil {
		return nil, false
	}
	h := a.lease.VolumeReuse()
	return h, h != nil && machine(a.lease) == machine(before.lease)
}

// machine names that on which a lease's files are: one elsewhere, or this one.
func machine(l driver.Lease) string {
	if m := l.DirectTransfer(); m != nil {
		return m.Machine()
	}
	return ""
}

// Restore implements driver.Checkpoints. What turns out not to be the checkpoint is made so
// by the store: of a tree that is there, only what differs travels.
func (s reusedStore) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	t := to.(transfer.Tree)
	if !s.before.made(k) {
		return s.Checkpoints.Restore(ctx, k, t)
	}
	err := s.volumeReuse.ReuseVolume(ctx, s.before.lies, t.Remote)
	if err == nil {
		err = s.a.same(ctx, k, t.Remote)
	}
	switch {
	case err == nil:
		s.before.lies = ""
		s.a.event(ctx, event.VolumeReused{Of: k.Attempt})
		return nil
	case interrupted(ctx, err):
		return err
	}
	s.a.event(ctx, event.VolumeNotReused{Of: k.Attempt, Cause: event.CauseOf(err)})
	<-s.a.runner.releaseBefore(ctx)
	return s.Checkpoints.Restore(ctx, k, t)
}

// reuseInput has an input that was brought for the attempt before be there already when
// it is brought for this one: only what differs travels then. A small one comes as soon.
func (a *attempt) reuseInput(ctx context.Context, head core.Host, s inputs.Copy) {
	volumeReuse, is := a.volumeReuse()
	if !is || a.lease.DirectTransfer() == nil {
		return
	}
	if info, err := os.Stat(s.Local); err == nil && (info.IsDir() || info.Size() >= reuseFrom) {
		volumeReuse.ReuseVolume(ctx, path.Join(a.runner.lent().lease.Hosts()[0].Dir, s.Remote), path.Join(head.Dir, s.Remote)) //nolint:errcheck // then all of it travels
	}
}
