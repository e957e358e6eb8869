package virtualbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

type provider struct {
	s    Settings
	vbox caller
	kind leasedir.Kind
	// ends bounds the end of a guest.
	ends time.Duration
}

// Info implements driver.Provider.
func (p *provider) Info() driver.Info {
	return driver.Info{Name: Driver, Summary: "a clone of the VirtualBox machine " + core.Printable(p.s.Base, 80), Downloads: true, Untried: "a real VirtualBox"}
}

// Probe implements driver.Provider.
func (p *provider) Probe(ctx context.Context) (driver.Facts, error) {
	b, err := p.look(ctx)
	if ctx.Err() != nil {
		return driver.Facts{}, context.Cause(ctx)
	}
	if err != nil {
		return driver.Facts{Reason: err.Error(), Remedy: core.Remedy(err), Passing: core.IsKind(err, core.Transient)}, nil
	}
	cpus, memory := p.size(b)
	return driver.Facts{
		Usable: true, Hosts: 1, Slots: cpus, Version: b.version,
		Reason: fmt.Sprintf("%s with %s devices, %d cores and %d MiB. BEE was never tried with a real VirtualBox", p.Info().Summary, p.s.Devices, cpus, memory>>20),
		Detail: map[string]string{"machine": b.uuid, "devices": string(p.s.Devices)},
	}, nil
}

// Echo implements driver.Provider: a guest is made for each run.
func (p *provider) Echo(context.Context, []byte) ([]byte, error) { return nil, driver.ErrNoHosts }

// TryRuntime implements driver.Provider: there is no guest before a run.
func (p *provider) TryRuntime(context.Context, string) (runtime, host string, err error) {
	return "", "", nil
}

// Directories implements driver.Provider: a guest has no directories of the user's.
func (p *provider) Directories(_ context.Context, wanted []driver.Directory) ([]string, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	return nil, &core.Error{
		Kind: core.Unsupported, Op: "mount", Object: wanted[0].Path, Err: errors.New("the guest of site " + p.s.Name + " is made for the run, and has no directories of yours"),
		Remedy: "Use `inputs:`, or a site that has the directory.",
	}
}

// Queue implements driver.Provider.
func (p *provider) Queue() driver.SiteQueue { return nil }

// Foreign implements driver.Provider: guests are those of this machine.
func (p *provider) Foreign() driver.ForeignLeases { return nil }

// HostLocks implements driver.Provider: guests compute on this machine.
func (p *provider) HostLocks() driver.HostLocks { return p.s.Locks }

// BurstBuffers implements driver.Provider: what guests have goes with them.
func (p *provider) BurstBuffers() driver.BurstBuffers { return nil }

// Inventory implements driver.Provider: nothing is rented.
func (p *provider) Inventory() driver.Inventory { return nil }

// fits refuses what no guest of the site has.
func (p *provider) fits(b *base, r driver.Request) error {
	cpus, memory := p.size(b)
	reason, remedy := "", "Give the guest more at the site, or lower what the job wants."
	switch {
	case r.Nodes > 1:
		reason, remedy = fmt.Sprintf("the job wants %d nodes, and the site has one guest", r.Nodes), "Lower `nodes:`, or prepare several machines as a site of provider ssh."
	case r.SlotsPerNode > cpus:
		reason = fmt.Sprintf("the guest has %d cores, and the job wants %d", cpus, r.SlotsPerNode)
	case r.Memory > memory:
		reason = fmt.Sprintf("the guest has %d MiB of memory, and the job wants %d", memory>>20, r.Memory>>20)
	case r.GPUs != 0:
		reason, remedy = "a guest of VirtualBox has no GPUs", "Use another site."
	case r.RDMA:
		reason, remedy = "a guest of VirtualBox has no RDMA device", "Use another site."
	default:
		return nil
	}
	return &core.Error{Kind: core.Unsupported, Op: "use site", Object: p.s.Name, Err: errors.New(reason), Remedy: remedy}
}

// Acquire implements driver.Provider. What a call has left that was killed is deleted, and made again.
func (p *provider) Acquire(ctx context.Context, q driver.Request) (driver.Lease, error) {
	if q.Nodes < 1 {
		return nil, &core.Error{Kind: core.Invalid, Op: "use site", Object: p.s.Name, Err: fmt.Errorf("%d nodes cannot be had", q.Nodes), Remedy: "Correct `nodes:`."}
	}
	dir := p.kind.Dir(p.s.Dir, q.Owner)
	r, err := read(dir, q.Owner)
	if err != nil {
		return nil, err
	}
	var b *base
	if !r.ready() { // before anything is made
		if b, err = p.look(ctx); err == nil {
			err = p.fits(b, q)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := fsutil.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, leasedir.Unusable(p.s.Dir, err)
	}
	unlock, err := leasedir.Lock(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if r, err = read(dir, q.Owner); err != nil { // another may have been quicker
		return nil, err
	}
	switch {
	case r.ready():
		return newLease(p, q.Owner, dir, r, nil), nil
	case b == nil: // it was released meanwhile
		return nil, &core.Error{Kind: core.Transient, Op: "use site", Object: p.s.Name, Err: errors.New("the lease was released while it was asked for"), Remedy: core.RemedyShow}
	}
	l, err := p.acquire(ctx, dir, q, b)
	if err == nil {
		return l, nil
	}
	return nil, leasedir.Undo(ctx, err, dir, q.Owner, func(ctx context.Context) error { return p.end(ctx, dir, q.Owner) })
}

func (p *provider) acquire(ctx context.Context, dir string, q driver.Request, b *base) (*lease, error) {
	if err := p.end(ctx, dir, q.Owner); err != nil {
		return nil, err
	}
	if err := fsutil.RemoveAll(filepath.Join(dir, guestDir)); err != nil {
		return nil, leasedir.Unusable(dir, err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	r := &record{Version: driverVersion, Owner: q.Owner, Guest: newGuest(), Base: b.uuid, Port: port, User: p.s.User}
	if err := r.write(dir); err != nil {
		return nil, err
	}
	if err := p.create(ctx, dir, r, b); err != nil {
		return nil, err
	}
	return p.boot(ctx, dir, r, q)
}

// List implements driver.Provider.
func (p *provider) List(_ context.Context, q core.Owner) ([]core.Handle, error) {
	return p.kind.List(q, p.s.Dir)
}

// Recover implements driver.Provider. Where the guest runs no more, such as after a start of this machine, what is left
// of it is deleted.
func (p *provider) Recover(ctx context.Context, h core.Handle) (driver.Lease, error) {
	dir, _, err := p.kind.Find(h)
	if err != nil {
		return nil, err
	}
	r, err := read(dir, h.Owner)
	if err != nil {
		return nil, err
	}
	l := newLease(p, h.Owner, dir, r, nil)
	if r == nil { // a call that was killed at once
		l.r = &record{Owner: h.Owner}
	}
	running, err := p.list(ctx, runningLine())
	if err != nil {
		return nil, err
	}
	if has(running, l.r.Guest.UUID) {
		return l, nil
	}
	if err := l.Release(ctx); err != nil {
		return nil, err
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "recover lease on", Object: p.s.Name, Err: &core.GoneError{Err: errors.New("its guest does not run any more")}}
}
