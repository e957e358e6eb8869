package runner

import (
	"context"
	"path"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/checkpoint"
	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// An attempt that has written a checkpoint, and whose checkpoint is in the run's store, may
// leave it on its site as well, until the next attempt has started (of what a run that is over
// leaves for other runs, see lent_volume.go). That one reuses the
// volume where it is on the same machine (checkpoint/reuse.go). Elsewhere its site fetches
// the checkpoint by a direct transfer, where the two sites reach each other (ADR 24). A run
// never depends on it: the copy in the store counts.

// releaseOrLend releases an attempt; later, where the next one can use its checkpoint.
func (a *attempt) releaseOrLend(ctx context.Context, out outcome) error {
	if a.rec.LentToRuns() {
		return lentVolume{a}.lend(ctx, out)
	}
	if a.rec.State != state.Lending || !a.keeping.passes(ctx) {
		return a.releasing.finish(ctx, out)
	}
	a.rec.ended()
	if err := a.rec.put(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	a.maker.lend(a)
	return nil
}

// lends reports whether the attempt may leave its checkpoint on its site for the next one.
func (k *keeping) lends(ctx context.Context) bool {
	return k.rec.Verdict.Goes() && k.leftIn != "" && k.at.lease.VolumeReuse() != nil && k.rec.harmless(ctx)
}

// passes reports whether the attempt can pass its checkpoint on to the next one. Its hosts
// are not needed any more then.
func (k *keeping) passes(ctx context.Context) bool {
	site := k.at.lease.VolumeReuse()
	list, err := k.rec.of.checkpoints().Whole(ctx)
	if err != nil || len(list) == 0 {
		return false
	}
	if !checkpoint.Last(list[len(list)-1], k.rec.N) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	in, is := inputs.Below(k.at.lease.Hosts()[0].Dir, k.leftIn)
	if !is || k.rec.timed(ctx, core.PhaseRelease, func() error { return site.LendVolume(ctx) }) != nil {
		return false
	}
	k.leftIn = path.Join(k.at.lease.Hosts()[0].Dir, in)
	return true
}

// releaseBefore releases, meanwhile, what the attempt before has been left with.
func (d *drive) releaseBefore(ctx context.Context) (done <-chan struct{}) {
	over := make(chan struct{})
	b := d.lends
	d.lends = nil
	if b == nil {
		close(over)
		return over
	}
	d.behind.Go(func() {
		d.guard(func() {
			defer close(over)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
			defer cancel()
			b.rec.on(machinery.LendingOver)
			if err := b.rec.put(ctx); err != nil {
				return // it is released again
			}
			if err := b.at.lease.Release(ctx); err != nil {
				core.BestEffort(b.releasing.leave(ctx, err)) // what is not recorded as released is released again
				return
			}
			b.rec.on(machinery.Released)
			core.BestEffort(b.rec.put(ctx))
		})
	})
	return over
}
