package control

import (
	"cmp"
	"context"
	"errors"
	"path"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// An attempt that has saved itself, and whose checkpoint is in the run's store, may leave
// it on its site as well, until the next attempt has started. That one takes it over
// where it is on the same machine (inherit.go), or else its site fetches it straight from
// there, where the two reach each other (ADR 24). A run never depends on it: what counts
// is in the store.

// passFrom is how large a checkpoint has to be to be fetched straight from another site.
// A smaller one has come from home before two hosts have met.
const passFrom = 16 << 20

// handOn lets go of an attempt; later, where it can pass its checkpoint on.
func (a *attempt) handOn(ctx context.Context, out outcome) error {
	if a.rec.State != state.Lending || !a.passes(ctx) {
		return a.letGo(ctx, out)
	}
	a.ended()
	if err := a.put(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	a.before = a
	return nil
}

// lends reports whether the attempt may leave its checkpoint on its site for the next one.
func (a *attempt) lends(ctx context.Context) bool {
	return a.verdict.Goes() && a.lies != "" && a.lease.VolumeReuse() != nil && a.harmless(ctx)
}

// passes tells whether the attempt can pass its checkpoint on. Nobody waits for its hosts
// then any more.
func (a *attempt) passes(ctx context.Context) bool {
	site := a.lease.VolumeReuse()
	list, err := a.kept(ctx)
	if err != nil || len(list) == 0 {
		return false
	}
	if !a.made(list[len(list)-1]) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	in, is := below(a.lease.Hosts()[0].Dir, a.lies)
	if !is || a.timed(ctx, protocol.PhaseRelease, func() error { return site.Yield(ctx) }) != nil {
		return false
	}
	a.lies = path.Join(a.lease.Hosts()[0].Dir, in)
	return true
}

// made tells whether a checkpoint is the one that the attempt has left at its end.
func (a *attempt) made(k driver.Checkpoint) bool {
	return k.Generation == driver.Generation{Attempt: a.rec.N}
}

// releaseBefore gives back, meanwhile, what the attempt before has been left with.
func (d *drive) releaseBefore(ctx context.Context) (done <-chan struct{}) {
	over := make(chan struct{})
	b := d.before
	d.before = nil
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
	if a.before == nil || a.before.lies == "" {
		return store
	}
	if heir, is := a.heir(); is {
		return inherited{store, a, a.before, heir}
	}
	from, to := a.before.lease.DirectTransfer(), a.lease.DirectTransfer()
	if from == nil || to == nil || a.sub.Job.Store != "" { // which has ways of its own
		return store
	}
	return passedOn{store, a, a.before, route{from, to, a.before.site.Name, a.site.Name}}
}

// passedOn is a store whose newest checkpoint lies on another site, too.
type passedOn struct {
	driver.Checkpoints
	a, before *attempt
	route     route
}

// Restore implements driver.Checkpoints.
func (s passedOn) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	t := to.(tree)
	if !s.before.made(k) || k.Manifest.Bytes < cmp.Or(s.a.c.passFrom, passFrom) {
		return s.Checkpoints.Restore(ctx, k, t)
	}
	return s.a.carry(ctx, s.route, t, t.bringing(), func(t tree) error {
		if t.way == nil {
			return s.fromHome(ctx, k, t)
		}
		err := s.pass(ctx, k, t)
		if err == nil || core.IsKind(err, core.Lost) || ctx.Err() != nil {
			return err
		}
		s.a.event(ctx, event.DirectFailed{From: s.route.fromName, To: s.route.toName, Cause: event.CauseOf(err)})
		t.way = nil
		return s.fromHome(ctx, k, t)
	})
}

// pass has the tree go straight, and compared.
func (s passedOn) pass(ctx context.Context, k driver.Checkpoint, t tree) error {
	in, err := t.Receive(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	from := driver.Transfer{Remote: s.before.lies, Via: t.way.Name, Progress: t.way.Progress}
	if err := s.before.lease.DirectTransfer().Pass(ctx, from, in, t.way.Close); err != nil {
		return err
	}
	return s.a.same(ctx, k, t)
}

// fromHome has it come by the way of all others. What the attempt before still has goes
// first: both may be on one disk.
func (s passedOn) fromHome(ctx context.Context, k driver.Checkpoint, t tree) error {
	<-s.a.releaseBefore(ctx)
	return s.Checkpoints.Restore(ctx, k, t)
}

// same has what lies on the head's host compared with the checkpoint in the store:
// nothing else is gone on from.
func (a *attempt) same(ctx context.Context, k driver.Checkpoint, t tree) error {
	same, err := a.lease.Matches(ctx, t.remote, k.Manifest)
	if err == nil && !same {
		err = errOther
	}
	if err == nil {
		a.sameAs = k.Manifest.Digest()
	}
	return err
}

var errOther = errors.New("it is not the one in the run's store") //nolint:gochecknoglobals // a constant
