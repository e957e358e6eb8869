package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/store"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// How what an attempt has left goes straight from its site to the next one's.

// rendezvous is the network between sites.
func (m *model) rendezvous(_ context.Context, listener, caller driver.Connector) (*transfer.Connection, error) {
	m.step()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, end := range []driver.Connector{listener, caller} {
		l := end.(modelTransfer).l
		if err := l.s.way("meet", 25); err != nil {
			return nil, err
		}
		if !l.s.passes {
			return nil, &core.Error{Kind: core.Unsupported, Err: errors.New("no way to " + l.s.name)}
		}
	}
	return &transfer.Connection{Name: "way", Addr: listener.Machine()}, nil
}

// modelTransfer is the direct transfer of a lease.
type modelTransfer struct{ l *modelLease }

func (d modelTransfer) Machine() string {
	if d.l.s.m.shared {
		return "all"
	}
	return d.l.s.name
}

func (modelTransfer) Rendezvous(context.Context, driver.RendezvousSpec) (driver.End, error) {
	panic("the model's network has hosts meet")
}

// modelReuse lends and reuses volumes of leases.
type modelReuse struct{ l *modelLease }

// LendVolume gives the hosts of a site with a queue back, where files stay.
func (v modelReuse) LendVolume(context.Context) error {
	v.l.s.m.step()
	if err := v.l.reach("yield"); err != nil {
		return err
	}
	v.l.s.m.mu.Lock()
	defer v.l.s.m.mu.Unlock()
	if !v.l.s.passes || v.l.s.queue && !v.l.s.keeps {
		return &core.Error{Kind: core.Unsupported, Err: errors.New("its files go with its hosts")}
	}
	if v.l.s.queue && v.l.live {
		v.l.gone()
	}
	if aside := v.l.dir + ".aside"; os.Rename(v.l.dir, aside) == nil {
		v.l.dir = aside
	}
	if m := v.l.s.m; m.once("yielded."+v.l.s.name, 15) {
		return m.passing("yield, which has worked,")
	}
	return nil
}

// Look implements driver.VolumeReuse: no run of the model has inputs of another one.
func (modelReuse) Look(context.Context, driver.Transfer) (driver.Lent, error) {
	return driver.Lent{}, &core.Error{Kind: core.Unsupported, Err: errors.New("no run reads the volume")}
}

// CopyTree implements driver.VolumeReuse, likewise.
func (modelReuse) CopyTree(context.Context, driver.Transfer, string, string) error {
	return &core.Error{Kind: core.Unsupported, Err: errors.New("no run reads the volume")}
}

// ReuseVolume moves a tree from another lease to this one, or does so and is not heard of,
// or cannot do it; and a process may still write there.
func (v modelReuse) ReuseVolume(_ context.Context, from, to string) error {
	m := v.l.s.m
	m.step()
	err := v.l.reach("inherit")
	m.mu.Lock()
	how := m.of("inherit."+v.l.s.name, 6)
	m.mu.Unlock()
	if err == nil && how == 1 {
		err = &core.Error{Kind: core.Permanent, Err: errors.New("it is another file system")}
	}
	if err == nil {
		err = leasedir.ReuseVolume(from, to)
	}
	switch {
	case err != nil:
	case how == 2:
		err = os.WriteFile(filepath.Join(to, "count"), []byte("1"), 0o600)
	default:
		m.mu.Lock()
		if m.say("%s has it still", v.l.s.name); how == 3 {
			err = m.passing("inheriting, which has worked,")
		}
		m.mu.Unlock()
	}
	m.step()
	return err
}

func (d modelTransfer) Pass(_ context.Context, t driver.Transfer, to driver.Receiver, _ func()) error {
	m := d.l.s.m
	m.step()
	err := d.l.reach("pass")
	into := to.(*modelArrival)
	if err == nil {
		err = into.l.reach("pass")
	}
	if _, serr := os.Stat(t.Remote); err == nil && serr != nil {
		err = &core.Error{Kind: core.NotFound, Err: serr}
	}
	if err == nil {
		err = os.RemoveAll(into.path)
	}
	if err == nil {
		time.Sleep(m.size / 10)
		if err = into.arrive(t.Remote); err == nil {
			m.mu.Lock()
			m.say("%s has it from %s", into.l.s.name, d.l.s.name)
			m.mu.Unlock()
		}
	}
	m.step()
	return err
}

// modelArrival is a tree that comes to a site.
type modelArrival struct {
	io.ReadWriteCloser
	l    *modelLease
	path string
}

// arrive has it come, whole, or in part, or as another one.
func (a *modelArrival) arrive(from string) error {
	m := a.l.s.m
	m.mu.Lock()
	broken := m.of("arrival."+a.l.s.name, 10)
	m.mu.Unlock()
	switch broken {
	case 1, 2:
		tornCopy(from, a.path)
		return &core.Error{Kind: []core.Kind{core.Lost, core.Transient}[broken-1], Err: errors.New("the way broke in the midst of it")}
	case 3: // a straggler of the job's still writes
		return errors.Join(copyTree(from, a.path), os.WriteFile(filepath.Join(a.path, "count"), []byte("1"), 0o600))
	case 4:
		return &core.Error{Kind: core.Permanent, Err: errFull}
	}
	return copyTree(from, a.path)
}

func (a *modelArrival) Outcome() error { return nil }
func (a *modelArrival) Close() error   { return nil }

func (d modelTransfer) Incoming(_ context.Context, t driver.Transfer) (driver.Receiver, error) {
	d.l.s.m.step()
	return &modelArrival{l: d.l, path: t.Remote}, d.l.reach("receive")
}

func (modelTransfer) Outgoing(context.Context, driver.Transfer) (io.ReadWriteCloser, error) {
	panic("the model passes trees as a whole")
}

func (modelTransfer) Upload(context.Context, string, driver.Generation, string, driver.SignObject) ([]byte, error) {
	panic("the model has no bucket")
}

// modelStoreAccess uses the store from the hosts of a lease.
type modelStoreAccess struct{ l *modelLease }

func (a modelStoreAccess) Sees(context.Context, string) (bool, error) {
	a.l.s.m.step()
	return a.l.s.sees, a.l.reach("look for the store")
}

func (a modelStoreAccess) Keep(ctx context.Context, dir string, g driver.Generation, site, tree string) (driver.Manifest, bool, error) {
	a.l.s.m.step()
	if err := a.l.reach("serve"); err != nil {
		return driver.Manifest{}, false, err
	}
	return dirstore.Store(filepath.Dir(dir)).Run(filepath.Base(dir)).Keep(ctx, g, site, store.Tree(tree))
}

func (a modelStoreAccess) Restore(ctx context.Context, dir string, k driver.Checkpoint, tree string) error {
	a.l.s.m.step()
	if err := a.l.reach("serve"); err != nil {
		return err
	}
	return dirstore.Store(filepath.Dir(dir)).Run(filepath.Base(dir)).Restore(ctx, k, store.Tree(tree))
}

func (l *modelLease) Matches(ctx context.Context, tree string, m driver.Manifest) (bool, error) {
	l.s.m.step()
	if err := l.reach("serve"); err != nil {
		return false, err
	}
	return store.Matches(ctx, tree, m)
}
