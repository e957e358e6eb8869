package ssh

import (
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// hostLocks implements driver.HostLocks: the agent of each host has its lock as long as it is
// connected.
type hostLocks struct{ p *provider }

// hostLock is the lock of one host.
type hostLock struct {
	link   *sshlink.Link
	stream *rpc.Stream
}

func (l hostLock) unlock(p *provider) {
	core.BestEffort(l.stream.Close())
	p.ssh.Keep(l.link)
}

// LockHosts implements driver.HostLocks. Hosts that do not answer are not measured on either.
func (h hostLocks) LockHosts(ctx context.Context, s driver.Study) (driver.HostLock, error) {
	p := h.p
	held, errs := make([]*hostLock, len(p.s.Hosts)), make([]error, len(p.s.Hosts))
	p.each(len(p.s.Hosts), func(i int) { held[i], errs[i] = h.lock(ctx, p.s.Hosts[i], s) })
	got := slices.DeleteFunc(held, func(l *hostLock) bool { return l == nil })
	unlock := func() {
		for _, l := range got {
			l.unlock(p)
		}
	}
	refused := slices.IndexFunc(errs, func(err error) bool { return err != nil && !core.IsKind(err, core.Transient) })
	switch {
	case refused >= 0:
		unlock()
		return driver.HostLock{}, errs[refused]
	case len(got) == 0:
		return driver.HostLock{}, errors.Join(errs...)
	}
	lost := func() bool { return slices.ContainsFunc(got, func(l *hostLock) bool { return !l.link.Alive() }) }
	return driver.HostLock{Lost: lost, Unlock: unlock}, nil
}

// lock locks one host.
func (h hostLocks) lock(ctx context.Context, host string, s driver.Study) (*hostLock, error) {
	l, err := h.p.ssh.Connect(ctx, host)
	if err != nil {
		return nil, &core.Error{Kind: core.Transient, Op: "lock", Object: host, Err: err, Remedy: core.Remedy(err)}
	}
	c := h.p.call(host)
	c.Study = s
	stream, _, err := rpc.Open(context.WithoutCancel(ctx), l.Peer, hostcall.CallLockHost, c)
	if err != nil {
		h.p.ssh.Keep(l)
		return nil, sshlink.Transient(err)
	}
	return &hostLock{l, stream}, nil
}
