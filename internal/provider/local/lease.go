package local

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/reservation"
	"github.com/bee-hpc/bee/internal/store"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/wire"
)

type lease struct {
	kind    leasedir.Kind
	owner   core.Owner
	base    string
	dir     string // the lease's own
	argv    []string
	ledger  reservation.Ledger
	details details

	hasImage   func(cache, id string) bool
	tryRuntime func(ctx context.Context, name string) (works, host string, err error)
}

func (l *lease) Handle() core.Handle { return l.kind.Handle(l.dir, l.owner) }
func (l *lease) Hosts() []core.Host  { return l.details.Hosts }
func (l *lease) Deadline() time.Time { return time.Time{} }

func (l *lease) Status(context.Context) (driver.Status, error) {
	if err := l.kind.Check(l.dir); core.IsKind(err, core.NotFound) {
		return driver.Status{Reason: "released"}, nil
	} else if err != nil {
		return driver.Status{}, err
	}
	switch {
	case len(l.details.Hosts) == 0:
		return driver.Status{Reason: "half-made by a process that ended"}, nil
	case l.details.Emulated && !emulate.Alive(l.dir):
		return driver.Status{Reason: "the emulated hosts have ended"}, nil
	}
	if there, err := fsutil.Exists(l.details.Hosts[0].Dir); err != nil {
		return driver.Status{}, err
	} else if !there {
		return driver.Status{Reason: "its directory is gone"}, nil
	}
	return driver.Status{Live: true}, nil
}

func (l *lease) fail(op string, host int, err error) error {
	e := &core.Error{Kind: core.KindOf(err), Op: op, Object: fmt.Sprintf("host %d", host), Err: err}
	if host >= 0 && host < len(l.details.Hosts) {
		e.Object = l.details.Hosts[host].Name
	}
	return e
}

func (l *lease) checkHost(op string, host int) error {
	if host < 0 || host >= len(l.details.Hosts) {
		return &core.Error{Kind: core.Invalid, Op: op, Object: fmt.Sprintf("host %d", host), Err: fmt.Errorf("the lease has %d hosts", len(l.details.Hosts)), Remedy: core.RemedyFault}
	}
	return nil
}

// Disconnect implements driver.Lease: there are no connections that stay.
func (l *lease) Disconnect() {}

// TryRuntime implements driver.Lease. Emulated hosts are one machine.
func (l *lease) TryRuntime(ctx context.Context, name string) (works, host string, err error) {
	return l.tryRuntime(ctx, name)
}

// Matches implements driver.Lease.
func (l *lease) Matches(ctx context.Context, tree string, m driver.Manifest) (bool, error) {
	return store.Matches(ctx, tree, m)
}

// KeepsFiles implements driver.Lease.
func (l *lease) KeepsFiles() bool { return false }

// Queue implements driver.Lease.
func (l *lease) Queue() driver.LeaseQueue { return nil }

// Autostart implements driver.Lease.
func (l *lease) Autostart() driver.Autostart { return nil }

// DirectTransfer implements driver.Lease: the files are on this machine.
func (l *lease) DirectTransfer() driver.DirectTransfer { return nil }

// VolumeReuse implements driver.Lease.
func (l *lease) VolumeReuse() driver.VolumeReuse { return volumeReuse{l} }

// StoreAccess implements driver.Lease.
func (l *lease) StoreAccess() driver.StoreAccess { return nil }

// Downloads implements driver.Lease: what this machine fetches is there.
func (l *lease) Downloads() driver.Downloader { return nil }

// Fencer implements driver.Lease.
func (l *lease) Fencer() driver.Fencer { return nil }

// Price implements driver.Lease: the site has no price list.
func (*lease) Price() *driver.Price { return nil }

// Adopters implements driver.Lease.
func (l *lease) Adopters() driver.Adopters { return leasedir.Adopters(l.dir) }

// HasImage implements driver.Lease.
func (l *lease) HasImage(_ context.Context, host int, id string) (bool, error) {
	if err := l.checkHost("look for an image on", host); err != nil {
		return false, err
	}
	return l.hasImage != nil && l.hasImage(l.details.Hosts[host].Cache, id), nil
}

// Dial works for emulated hosts too: a unix socket is found by its file,
// whichever network namespace it was made in.
func (l *lease) Dial(ctx context.Context, host int, socket string) (net.Conn, error) {
	if err := l.checkHost("dial", host); err != nil {
		return nil, err
	}
	conn, err := wire.DialSocket(ctx, socket)
	if err != nil {
		return nil, l.fail("dial", host, err)
	}
	return conn, nil
}

func (l *lease) Stage(ctx context.Context, t driver.Transfer) error {
	if err := l.checkHost("stage", t.Host); err != nil {
		return err
	}
	if err := treesync.Copy(ctx, t.Local, t.Remote, t.Progress); err != nil {
		return l.fail("stage to", t.Host, err)
	}
	return nil
}

func (l *lease) Fetch(ctx context.Context, t driver.Transfer) error {
	if err := l.checkHost("fetch", t.Host); err != nil {
		return err
	}
	from, done, err := leasedir.Source(t)
	if err != nil {
		return err
	}
	defer done()
	if err := treesync.Copy(ctx, from, t.Local, t.Progress); err != nil {
		return l.fail("fetch from", t.Host, err)
	}
	return nil
}

// Release ends the nodes or the emulated hosts, then removes the run's
// directory, and the lease's own last.
func (l *lease) Release(ctx context.Context) error {
	return leasedir.Release(ctx, l.dir, l.owner, l.destroy)
}

// destroy ends and removes everything but the lease's own directory, which
// it empties. The caller holds the lock.
func (l *lease) destroy(ctx context.Context) error {
	if err := l.end(ctx); err != nil {
		return err
	}
	return leasedir.Empty(l.dir, l.base, l.owner)
}

// end ends the nodes and the emulated hosts. The caller holds the lock.
func (l *lease) end(ctx context.Context) error {
	if err := l.stopNodes(ctx); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "end the nodes of", Object: l.owner.String(), Err: err}
	}
	if err := emulate.Destroy(ctx, l.dir); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "end the emulated hosts of", Object: l.owner.String(), Err: err}
	}
	l.drop()
	return nil
}
