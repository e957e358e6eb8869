package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// lease is a number of rented machines. Their hosts are reached through another lease, of the
// provider for ssh; ending them needs none.
type lease struct {
	driver.InnerLease
	p     *provider
	owner core.Owner
	dir   string
	r     *record

	mu    sync.Mutex
	inner driver.Lease

	// looked is when this machine's address was last looked for; admitted is when which ranges were last admitted, and
	// barred when they last could not be.
	admitting                sync.Mutex
	looked, admitted, barred time.Time
	from                     []string
}

// newLease returns a lease; inner is that behind ssh, or nil as long as nothing is connected.
func newLease(p *provider, owner core.Owner, dir string, r *record, inner driver.Lease) *lease {
	l := &lease{p: p, owner: owner, dir: dir, r: r, inner: inner}
	l.Reach = l.reach
	return l
}

// reach returns the lease behind ssh.
func (l *lease) reach(ctx context.Context) (driver.Lease, error) {
	if !l.r.ready() {
		return nil, &core.Error{Kind: core.Lost, Op: "reach machines of", Object: l.owner.String(), Err: errors.New("they have never answered"), Remedy: "Check the image, the key and the security group of the machines."}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != nil {
		return l.inner, nil
	}
	if machines, err := l.p.api.Launched(ctx, l.r.Token); err == nil { // else they may be where they were
		if err := l.readdress(ctx, machines); err != nil {
			return nil, err
		}
	}
	p, err := l.p.s.Reach.Provider(l.r.connection(l.dir))
	if err != nil {
		return nil, err
	}
	inner, err := p.Recover(ctx, l.r.Inner)
	if err != nil {
		return nil, err
	}
	l.inner = inner
	return inner, nil
}

// readdress notes the addresses that the machines have now, if they are others. The caller holds l.mu.
func (l *lease) readdress(ctx context.Context, machines []Machine) error {
	addresses, jump, is := l.r.moved(machines)
	if !is {
		return nil
	}
	unlock, err := l.p.lock(ctx, l.dir, false)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := read(l.dir, l.owner) // as it is now
	if err != nil || r == nil {
		return err
	}
	r.Addresses, r.Jump = addresses, jump
	if r.Inner, err = l.p.s.Reach.Moved(r.Inner, r.connection(l.dir)); err != nil {
		return err
	}
	if err := pinOwnKeys(l.dir, addresses, r.Keys); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	if err := r.write(l.dir); err != nil {
		return err
	}
	l.r.Addresses, l.r.Jump, l.r.Inner = r.Addresses, r.Jump, r.Inner
	if l.inner != nil {
		l.inner.Disconnect()
		l.inner = nil
	}
	return nil
}

// Handle implements driver.Lease.
func (l *lease) Handle() core.Handle { return l.p.kind.Handle(l.dir, l.owner) }

// Hosts implements driver.Lease.
func (l *lease) Hosts() []core.Host { return l.r.Hosts }

// Deadline implements driver.Lease: machines end themselves later, so that what is there then
// can be collected.
func (l *lease) Deadline() time.Time {
	if l.r.Launched.IsZero() {
		return time.Time{}
	}
	return l.r.Expires.Add(-l.p.s.Keep)
}

// Status implements driver.Lease: the cloud knows.
func (l *lease) Status(ctx context.Context) (driver.Status, error) {
	if err := l.p.kind.Check(l.dir); core.IsKind(err, core.NotFound) {
		return l.released(ctx), nil
	}
	machines, all, err := l.running(ctx)
	if err != nil {
		return driver.Status{}, err
	}
	if all {
		return l.live(ctx, machines)
	}
	if machines, err = l.p.machines(ctx, l.owner, l.r); err != nil {
		return driver.Status{}, err
	}
	if m, is := firstEnd(machines); is { // what may compute is live: whether it answers shows the rest
		return l.p.why(ctx, l.r, m), nil
	}
	for _, id := range l.r.Machines {
		switch forgotten, err := l.forgotten(ctx, machines, id); {
		case err != nil:
			return driver.Status{}, err
		case forgotten:
			return l.p.why(ctx, l.r, unlisted(id)), nil
		}
	}
	return l.live(ctx, machines)
}

// live returns the status of a lease of which no machine has ended.
func (l *lease) live(ctx context.Context, machines []Machine) (driver.Status, error) {
	l.admit(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	return driver.Status{Live: true}, l.readdress(ctx, machines)
}

// admitPause is the time between two looks for this machine's address, and admitAgain that between two calls that admit the
// same one: others may have removed it.
const (
	admitPause = time.Minute
	admitAgain = 15 * time.Minute
)

// admit has ssh admitted from the address that this machine has now, as its network may be another one than at the
// launch. A bastion stays where it is. An error shows as machines that do not answer.
func (l *lease) admit(ctx context.Context) {
	l.admitting.Lock()
	due := l.r.Group != "" && l.p.s.Bastion == "" && time.Since(l.looked) > admitPause
	if due {
		l.looked = time.Now()
	}
	last, before := l.admitted, l.from
	l.admitting.Unlock()
	if !due {
		return
	}
	from, err := l.p.s.From(ctx)
	if err == nil && slices.Equal(from, before) && time.Since(last) < admitAgain {
		return
	}
	if err == nil {
		err = l.p.api.Admit(ctx, l.r.Group, from)
	}
	l.admitting.Lock()
	defer l.admitting.Unlock()
	if err != nil {
		l.barred = time.Now()
	} else {
		l.admitted, l.from = time.Now(), from
	}
}

// isBarred reports whether the machines may not have admitted this one a moment ago: that they do not answer it shows
// nothing.
func (l *lease) isBarred() bool {
	l.admitting.Lock()
	defer l.admitting.Unlock()
	return !l.barred.IsZero() && time.Since(l.barred) < 2*admitPause
}

// listedLate bounds by default how long after their launch machines may be listed late. Such clouds list those that
// have ended for longer.
const listedLate = 30 * time.Minute

// forgotten reports whether a machine, which the given list may not have, has ended so long ago that the cloud
// does not list it any more.
func (l *lease) forgotten(ctx context.Context, machines []Machine, id string) (bool, error) {
	if lists(machines, id) || time.Since(l.r.Launched) < l.p.s.Late {
		return false, nil
	}
	if err := core.Sleep(ctx, l.p.s.Settle); err != nil {
		return false, err
	}
	again, err := l.p.machines(ctx, l.owner, l.r)
	return err == nil && !lists(again, id), err
}

// Release implements driver.Lease. It needs no connection to the machines.
func (l *lease) Release(ctx context.Context) error {
	l.Disconnect()
	if err := l.p.kind.Check(l.dir); core.IsKind(err, core.NotFound) && l.r.Version != 0 {
		return nil
	}
	unlock, err := l.p.lock(ctx, l.dir, l.r.Version == 0) // known by its tags alone
	if core.IsKind(err, core.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return leasedir.Discard(ctx, l.dir, l.owner, func(ctx context.Context) error { return l.p.end(ctx, l.owner, l.dir) })
}

// Disconnect implements driver.Lease.
func (l *lease) Disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != nil {
		l.inner.Disconnect()
	}
}

// Fetch implements driver.Lease. What was on a machine that has ended is not there any more: the
// cloud knows, where ssh only finds that nobody answers.
func (l *lease) Fetch(ctx context.Context, t driver.Transfer) error {
	inner, err := l.reach(ctx)
	if err == nil {
		end := l.prolong(ctx, t.Host)
		err = inner.Fetch(ctx, t)
		end()
	}
	if !core.IsKind(err, core.Transient) || t.Host < 0 || t.Host >= len(l.r.Machines) {
		return err
	}
	machines, merr := l.p.machines(ctx, l.owner, l.r)
	if merr != nil {
		return err
	}
	id := l.r.Machines[t.Host]
	gone := func(state string) error {
		return &core.Error{Kind: core.NotFound, Op: "fetch", Object: t.Remote, Err: fmt.Errorf("machine %s is %s", id, state), Remedy: core.RemedyShow}
	}
	for _, m := range machines {
		if m.ID == id && m.State >= Ending {
			return gone(m.State.String() + ended([]Machine{m}))
		}
	}
	if forgotten, ferr := l.forgotten(ctx, machines, id); ferr == nil && forgotten {
		return gone("not listed any more")
	}
	return err
}

// Times of a machine that is about to end itself while files are fetched from it.
const (
	prolongBefore = 5 * time.Minute
	prolongPause  = time.Minute
)

// prolongCommand has a machine wait for some minutes before it ends itself.
const prolongCommand = "touch /etc/bee/fetching"

// prolong has a machine that is near its expiry live until end is called, at most up to the last moment of its
// start script. An error shows as a machine that has ended.
func (l *lease) prolong(ctx context.Context, host int) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	c := l.r.connection(l.dir)
	l.mu.Unlock()
	if host < 0 || host >= len(c.Addresses) {
		return cancel
	}
	ask := func() {
		if time.Until(l.r.Expires) < prolongBefore {
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			core.BestEffort(l.p.s.Reach.Output(ctx, c, c.Addresses[host], prolongCommand))
		}
	}
	ask()
	go func() {
		for core.Sleep(ctx, prolongPause) == nil {
			ask()
		}
	}()
	return cancel
}

// KeepsFiles implements driver.Lease: disks go with their machines.
func (l *lease) KeepsFiles() bool { return false }

// Queue implements driver.Lease: machines that were rented at once have answered.
func (l *lease) Queue() driver.LeaseQueue {
	if l.r.Reservation == "" {
		return nil
	}
	return queue{l}
}

// Autostart implements driver.Lease.
func (l *lease) Autostart() driver.Autostart { return nil }

// VolumeReuse implements driver.Lease: no file outlives the machines.
func (l *lease) VolumeReuse() driver.VolumeReuse { return nil }

// StoreAccess implements driver.Lease: a directory that a machine sees may be on its own disk, and go with it.
func (l *lease) StoreAccess() driver.StoreAccess { return nil }

// Fencer implements driver.Lease.
func (l *lease) Fencer() driver.Fencer { return fencer{l} }

// Price implements driver.Lease: that of the offer by which the machines were rented.
func (l *lease) Price() *driver.Price { return l.r.Offer.Price }

// Adopters implements driver.Lease: its machines have the key of one installation.
func (l *lease) Adopters() driver.Adopters { return nil }
