package ssh

import (
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// Machine implements driver.Connector: that of the head, or the login node.
func (l *lease) Machine() string { return l.h.Hosts[0] }

// Rendezvous implements driver.Connector.
func (l *lease) Rendezvous(ctx context.Context, m driver.RendezvousSpec) (driver.End, error) {
	k, err := l.link(ctx, 0)
	if err != nil {
		return nil, err
	}
	return l.p.ssh.Rendezvous(ctx, k, m)
}

// LendVolume implements driver.VolumeReuse, on all hosts at once.
func (l *lease) LendVolume(ctx context.Context) error {
	n := len(l.h.Leases)
	errs, left := make([]error, n), make([]granted, n)
	l.p.each(n, func(i int) { left[i], errs[i] = ask(ctx, l, i, callLendVolume, l.call(i, 0)) })
	err := errors.Join(errs...)
	if err == nil && len(left[0].Hosts) == 0 {
		err = &core.Error{Kind: core.NotFound, Op: "put aside the files of", Object: l.owner.String(), Err: errors.New("the lease is not whole")}
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.hosts) == 0 {
		return &core.Error{Kind: core.NotFound, Op: "put aside the files of", Object: l.owner.String(), Err: errors.New("its hosts are not known")}
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
func (l *lease) ReuseVolume(ctx context.Context, from, to string) error {
	return l.order(ctx, 0, callReuseVolume, func(c *call) { c.From, c.Path = from, to })
}

// Pass implements driver.DirectTransfer.
func (l *lease) Pass(ctx context.Context, t driver.Transfer, to driver.Receiver, cut func()) error {
	from, err := l.Outgoing(ctx, t)
	if err != nil {
		return err
	}
	defer from.Close()
	return sshlink.Arrival(to, from, &driver.Connection{Name: t.Via, Progress: t.Progress, Close: cut})
}
