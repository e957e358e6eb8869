package ssh

import (
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
)

// volumeReuse reuses the files of a lease on the hosts that have them.
type volumeReuse struct{ l *lease }

// LendVolume implements driver.VolumeReuse, on all hosts at once.
func (v volumeReuse) LendVolume(ctx context.Context) error {
	l := v.l
	n := len(l.h.Leases)
	errs, left := make([]error, n), make([]hostcall.Granted, n)
	l.p.each(n, func(i int) { left[i], errs[i] = ask(ctx, l, i, hostcall.CallLendVolume, l.call(i, 0)) })
	err := errors.Join(errs...)
	if err == nil && len(left[0].Hosts) == 0 {
		err = &core.Error{Kind: core.NotFound, Op: "put aside the files of", Object: l.owner.String(), Err: errors.New("the lease is not whole"), Remedy: core.RemedyShow}
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.hosts) == 0 {
		return &core.Error{Kind: core.NotFound, Op: "put aside the files of", Object: l.owner.String(), Err: errors.New("its hosts are not known"), Remedy: core.RemedyShow}
	}
	moved := slices.Clone(l.hosts)
	moved[0].Dir = left[0].Hosts[0].Dir
	if err := core.CheckHosts(moved, len(moved), nil); err != nil {
		return err
	}
	l.hosts = moved
	return nil
}

// ReuseVolume implements driver.VolumeReuse.
func (v volumeReuse) ReuseVolume(ctx context.Context, from, to string) error {
	return v.l.order(ctx, 0, hostcall.CallReuseVolume, func(c *hostcall.Call) { c.From, c.Path = from, to })
}

// Look implements driver.VolumeReuse.
func (v volumeReuse) Look(ctx context.Context, t driver.Transfer) (driver.Lent, error) {
	found, err := about(ctx, v.l, 0, hostcall.CallLook, treeAt(t))
	return driver.Lent(found), err
}

// CopyTree implements driver.VolumeReuse.
func (v volumeReuse) CopyTree(ctx context.Context, t driver.Transfer, via, to string) error {
	return v.l.order(ctx, 0, hostcall.CallCopyTree, func(c *hostcall.Call) {
		c.From, c.Within, c.Seen, c.Part, c.Path = t.Remote, t.Within, t.Seen, via, to
	})
}
