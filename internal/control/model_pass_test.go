package control

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
		l := end.(*modelLease)
		if err := l.s.way("meet", 25); err != nil {
			return nil, err
		}
		if !l.s.passes {
			return nil, &core.Error{Kind: core.Unsupported, Err: errors.New("no way to " + l.s.name)}
		}
	}
	return &transfer.Connection{Name: "way", Addr: listener.Machine()}, nil
}

func (l *modelLease) Machine() string {
	if l.s.m.shared {
		return "all"
	}
	return l.s.name
}

func (l *modelLease) Rendezvous(context.Context, driver.RendezvousSpec) (driver.End, error) {
	panic("the model's network has hosts meet")
}

// LendVolume gives the hosts of a site with a queue back, where files stay.
func (l *modelLease) LendVolume(context.Context) error {
	l.s.m.step()
	if err := l.reach("yield"); err != nil {
		return err
	}
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	if !l.s.passes || l.s.queue && !l.s.keeps {
		return &core.Error{Kind: core.Unsupported, Err: errors.New("its files go with its hosts")}
	}
	if l.s.queue && l.live {
		l.gone()
	}
	if aside := l.dir + ".aside"; os.Rename(l.dir, aside) == nil {
		l.dir = aside
	}
	if m := l.s.m; m.once("yielded."+l.s.name, 15) {
		return m.passing("yield, which has worked,")
	}
	return nil
}

// ReuseVolume moves a tree from another lease to this one, or does so and is not heard of,
// or cannot do it; and a process may still write there.
func (l *modelLease) ReuseVolume(_ context.Context, from, to string) error {
	m := l.s.m
	m.step()
	err := l.reach("inherit")
	m.mu.Lock()
	how := m.of("inherit."+l.s.name, 6)
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
		if m.say("%s has it still", l.s.name); how == 3 {
			err = m.passing("inheriting, which has worked,")
		}
		m.mu.Unlock()
	}
	m.step()
	return err
}

func (l *modelLease) Pass(_ context.Context, t driver.Transfer, to driver.Receiver, _ func()) error {
	m := l.s.m
	m.step()
	err := l.reach("pass")
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
			m.say("%s has it from %s", into.l.s.name, l.s.name)
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

func (l *modelLease) Incoming(_ context.Context, t driver.Transfer) (driver.Receiver, error) {
	l.s.m.step()
	return &modelArrival{l: l, path: t.Remote}, l.reach("receive")
}

func (l *modelLease) Outgoing(context.Context, driver.Transfer) (io.ReadWriteCloser, error) {
	panic("the model passes trees as a whole")
}

func (l *modelLease) Sees(context.Context, string) (bool, error) {
	l.s.m.step()
	return l.s.sees, l.reach("look for the store")
}

func (l *modelLease) Keep(ctx context.Context, dir string, g driver.Generation, site, tree string) (driver.Manifest, bool, error) {
	l.s.m.step()
	if err := l.reach("serve"); err != nil {
		return driver.Manifest{}, false, err
	}
	return dirstore.Store(filepath.Dir(dir)).Run(filepath.Base(dir)).Keep(ctx, g, site, store.Tree(tree))
}

func (l *modelLease) Restore(ctx context.Context, dir string, k driver.Checkpoint, tree string) error {
	l.s.m.step()
	if err := l.reach("serve"); err != nil {
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
