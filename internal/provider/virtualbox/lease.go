package virtualbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// lease is one guest. It is reached through another lease, of the provider for ssh; deleting it needs none.
type lease struct {
	driver.InnerLease
	p     *provider
	owner core.Owner
	dir   string
	r     *record

	mu    sync.Mutex
	inner driver.Lease
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
		return nil, &core.Error{Kind: core.Lost, Op: "reach guest", Object: l.r.Guest.Name, Err: errors.New("it has never answered"), Remedy: "Check the network and the sshd of the machine that is cloned."}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != nil {
		return l.inner, nil
	}
	p, err := l.p.s.Reach(l.r.connection(l.dir))
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

// Handle implements driver.Lease.
func (l *lease) Handle() core.Handle { return l.p.kind.Handle(l.dir, l.owner) }

// Hosts implements driver.Lease.
func (l *lease) Hosts() []core.Host { return l.r.Hosts }

// Deadline implements driver.Lease: a guest has none.
func (l *lease) Deadline() time.Time { return time.Time{} }

// Status implements driver.Lease: VirtualBox knows.
func (l *lease) Status(ctx context.Context) (driver.Status, error) {
	if err := l.p.kind.Check(l.dir); core.IsKind(err, core.NotFound) {
		return driver.Status{Reason: "its guest was deleted"}, nil
	}
	running, err := l.p.list(ctx, runningLine())
	if err != nil {
		return driver.Status{}, err
	}
	if !has(running, l.r.Guest.UUID) {
		return driver.Status{Reason: "guest " + l.r.Guest.Name + " does not run any more"}, nil
	}
	return driver.Status{Live: true}, nil
}

// Release implements driver.Lease. It needs no connection to the guest.
func (l *lease) Release(ctx context.Context) error {
	l.Disconnect()
	return leasedir.Release(ctx, l.dir, l.owner, func(ctx context.Context) error { return l.p.end(ctx, l.dir, l.owner) })
}

// Disconnect implements driver.Lease.
func (l *lease) Disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != nil {
		l.inner.Disconnect()
	}
}

// Fetch implements driver.Lease. What was on a guest that does not run is not there any more: VirtualBox knows, where ssh
// only finds that nobody answers.
func (l *lease) Fetch(ctx context.Context, t driver.Transfer) error {
	inner, err := l.reach(ctx)
	if err == nil {
		err = inner.Fetch(ctx, t)
	}
	if !core.IsKind(err, core.Transient) {
		return err
	}
	if s, serr := l.Status(ctx); serr == nil && !s.Live {
		return &core.Error{Kind: core.NotFound, Op: "fetch", Object: t.Remote, Err: errors.New(s.Reason), Remedy: core.RemedyShow}
	}
	return err
}

// KeepsFiles implements driver.Lease: the disk goes with the guest.
func (l *lease) KeepsFiles() bool { return false }

// Queue implements driver.Lease: the guest has answered.
func (l *lease) Queue() driver.LeaseQueue { return nil }

// Autostart implements driver.Lease.
func (l *lease) Autostart() driver.Autostart { return nil }

// VolumeReuse implements driver.Lease: no file outlives the guest.
func (l *lease) VolumeReuse() driver.VolumeReuse { return nil }

// StoreAccess implements driver.Lease: a directory that the guest sees may be on its own disk.
func (l *lease) StoreAccess() driver.StoreAccess { return nil }

// Fencer implements driver.Lease.
func (l *lease) Fencer() driver.Fencer { return nil }

// Price implements driver.Lease.
func (l *lease) Price() *driver.Price { return nil }

// Adopters implements driver.Lease: guests are those of this machine.
func (l *lease) Adopters() driver.Adopters { return nil }
