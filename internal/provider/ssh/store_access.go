package ssh

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/sshlink/storecall"
)

// storeAccess uses stores of checkpoints from the head's host.
type storeAccess struct{ l *lease }

// Sees implements driver.StoreAccess.
func (a storeAccess) Sees(ctx context.Context, path string) (bool, error) {
	return about(ctx, a.l, 0, hostcall.CallSees, at(path))
}

// Keep implements driver.StoreAccess.
func (a storeAccess) Keep(ctx context.Context, dir string, g driver.Generation, site, tree string) (driver.Manifest, bool, error) {
	r, err := a.use(ctx, storecall.Request{Op: storecall.OpKeep, Dir: dir, Generation: g, Site: site, Path: tree})
	return r.Manifest, r.Made, err
}

// Restore implements driver.StoreAccess.
func (a storeAccess) Restore(ctx context.Context, dir string, k driver.Checkpoint, tree string) error {
	_, err := a.use(ctx, storecall.Request{Op: storecall.OpRestore, Dir: dir, Kept: k, Path: tree})
	return err
}

func (a storeAccess) use(ctx context.Context, q storecall.Request) (storecall.Reply, error) {
	k, err := a.l.link(ctx, 0)
	if err != nil {
		return storecall.Reply{}, err
	}
	r, err := storecall.Ask(ctx, k, q)
	if errors.Is(err, storecall.ErrLong) {
		return storecall.Reply{}, &core.Error{Kind: core.Invalid, Op: "use the store from", Object: a.l.hosts[0].Name, Err: err, Remedy: "Something else than bee answers there."}
	}
	return r, sshlink.Transient(err)
}

// Matches implements driver.Lease: the head's host compares.
func (l *lease) Matches(ctx context.Context, tree string, m driver.Manifest) (bool, error) {
	_, err := storeAccess{l}.use(ctx, storecall.Request{Op: storecall.OpSame, Path: tree, Kept: driver.Checkpoint{Manifest: m}})
	if errors.Is(err, driver.ErrDamaged) {
		return false, nil
	}
	return err == nil, err
}
