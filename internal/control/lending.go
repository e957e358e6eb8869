package control

import (
	"cmp"
	"context"
	"path"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// An attempt that has saved itself, and whose checkpoint is in the run's store, may leave
// it on its site as well, until the next attempt has started. That one takes it over
// where it is on the same machine (volume_reuse.go), or else its site fetches it straight from
// there, where the two reach each other (ADR 24). A run never depends on it: what counts
// is in the store.

// reuseFrom is how large a checkpoint has to be to be fetched straight from another site.
// A smaller one has come from home before two hosts have met.
const reuseFrom = 16 << 20

// releaseOrLend releases an attempt; later, where the next one can use its checkpoint.
func (a *attempt) releaseOrLend(ctx context.Context, out outcome) error {
	if a.rec.State != state.Lending || !a.passes(ctx) {
		return a.letGo(ctx, out)
	}
	a.ended()
	if err := a.put(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	a.runner.lend(a)
	return nil
}

// lends reports whether the attempt may leave its checkpoint on its site for the next one.
func (a *attempt) lends(ctx context.Context) bool {
	return a.rec.Verdict.Goes() && a.lies != "" && a.lease.VolumeReuse() != nil && a.harmless(ctx)
}

// passes tells whether the attempt can pass its checkpoint on. Nobody waits for its hosts
// then any more.
func (a *attempt) passes(ctx context.Context) bool {
	site := a.lease.VolumeReuse()
	list, err := a.checkpoints().Whole(ctx)
	if err != nil || len(list) == 0 {
		return false
	}
	if !a.made(list[len(list)-1]) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	in, is := inputs.Below(a.lease.Hosts()[0].Dir, a.lies)
	if !is || a.timed(ctx, core.PhaseRelease, func() error { return site.LendVolume(ctx) }) != nil {
		return false
	}
	a.lies = path.Join(a.lease.Hosts()[0].Dir, in)
	return true
}

// made tells whether a checkpoint is the one that the attempt has left at its end.
func (a *attempt) made(k driver.Checkpoint) bool {
	return k.Generation == driver.Generation{Attempt: a.rec.N}
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
			b.on(machinery.LendingOver)
			if err := b.put(ctx); err != nil {
				return // it is released again
			}
			if err := b.lease.Release(ctx); err != nil {
				b.leave(ctx, err) //nolint:errcheck // what is not recorded as released is released again
				return
			}
			b.on(machinery.Released)
			b.put(ctx) //nolint:errcheck // see above
		})
	})
	return over
}

// fromBefore gives the run's store as one whose newest checkpoint comes from the site of
// the attempt before, as long as it is there.
func (a *attempt) fromBefore(store driver.Checkpoints) driver.Checkpoints {
	before := a.runner.lent()
	if before == nil || before.lies == "" {
		return store
	}
	if volumeReuse, is := a.volumeReuse(); is {
		return reusedStore{store, a, before, volumeReuse}
	}
	from, to := before.lease.DirectTransfer(), a.lease.DirectTransfer()
	if from == nil || to == nil || a.sub.Job.Store != "" { // which has ways of its own
		return store
	}
	return passedOn{store, a, before, transfer.Route{From: from, To: to, FromName: before.site.Name, ToName: a.site.Name}}
}

// passedOn is a store whose newest checkpoint lies on another site, too.
type passedOn struct {
	driver.Checkpoints
	a, before *attempt
	route     transfer.Route
}

// Restore implements driver.Checkpoints.
func (s passedOn) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	t := to.(transfer.Tree)
	if !s.before.made(k) || k.Manifest.Bytes < cmp.Or(s.a.c.reuseFrom, reuseFrom) {
		return s.Checkpoints.Restore(ctx, k, t)
	}
	return s.a.transfers().Transfer(ctx, s.route, t, t.Restoring(), func(t transfer.Tree) error {
		if t.Direct() == nil {
			return s.fromHome(ctx, k, t)
		}
		err := s.pass(ctx, k, t)
		if err == nil || core.IsKind(err, core.Lost) || ctx.Err() != nil {
			return err
		}
		s.a.event(ctx, event.DirectFailed{From: s.route.FromName, To: s.route.ToName, Cause: event.CauseOf(err)})
		return s.fromHome(ctx, k, t.Relayed())
	})
}

// pass transfers the tree directly, and compares it.
func (s passedOn) pass(ctx context.Context, k driver.Checkpoint, t transfer.Tree) error {
	in, err := t.Receive(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	from := driver.Transfer{Remote: s.before.lies, Via: t.Direct().Name, Progress: t.Direct().Progress}
	if err := s.before.lease.DirectTransfer().Pass(ctx, from, in, t.Direct().Close); err != nil {
		return err
	}
	return s.a.same(ctx, k, t.Remote)
}

// fromHome has it come by the way of all others. What the attempt before still has goes
// first: both may be on one disk.
func (s passedOn) fromHome(ctx context.Context, k driver.Checkpoint, t transfer.Tree) error {
	<-s.a.runner.releaseBefore(ctx)
	return s.Checkpoints.Restore(ctx, k, t)
}
