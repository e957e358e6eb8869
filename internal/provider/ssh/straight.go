package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
)

// Machine implements driver.Meeter: that of the head, or the login node.
func (l *lease) Machine() string { return l.h.Hosts[0] }

// Meet implements driver.Meeter.
func (l *lease) Meet(ctx context.Context, m driver.Meeting) (driver.End, error) {
	k, err := l.link(ctx, 0)
	if err != nil {
		return nil, err
	}
	return l.p.meet(ctx, k, m)
}

// Yield implements driver.VolumeReuse, on all hosts at once.
func (l *lease) Yield(ctx context.Context) error {
	n := len(l.h.Leases)
	errs, left := make([]error, n), make([]granted, n)
	l.p.each(n, func(i int) { left[i], errs[i] = ask(ctx, l, i, callYield, l.call(i, 0)) })
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

// Inherit implements driver.VolumeReuse.
func (l *lease) Inherit(ctx context.Context, from, to string) error {
	return l.order(ctx, 0, callInherit, func(c *call) { c.From, c.Path = from, to })
}

// Pass implements driver.DirectTransfer.
func (l *lease) Pass(ctx context.Context, t driver.Transfer, to driver.Receiver, cut func()) error {
	from, err := l.Outgoing(ctx, t)
	if err != nil {
		return err
	}
	defer from.Close()
	return arrival(to, from, &driver.Connection{Name: t.Via, Progress: t.Progress, Close: cut})
}

// Machine implements driver.Meeter.
func (p *remoteStore) Machine() string { return p.p.s.Hosts[0] }

// Meet implements driver.Meeter.
func (p *remoteStore) Meet(ctx context.Context, m driver.Meeting) (driver.End, error) {
	k, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	return p.p.meet(ctx, k, m)
}

// end is the call by which a host's agent takes part in a meeting.
type end struct {
	*rpc.Stream
	addrs []string
}

func (p *provider) meet(ctx context.Context, k *link, m driver.Meeting) (driver.End, error) {
	s, at, err := rpc.Open(ctx, k.Peer, callMeet, meetRequest{m})
	if err != nil {
		return nil, transient(err)
	}
	e := &end{s, at.Addrs}
	if len(e.addrs) > 0 {
		e.addrs = p.withName(ctx, k.host, e.addrs)
	}
	return e, nil
}

// withName adds to the addresses of a host that by which ssh knows it: where
// addresses are translated on the way to it, it does not know that one itself.
func (p *provider) withName(ctx context.Context, host string, addrs []string) []string {
	name := configured(ctx, p.s.Client, host, p.s.Options)["hostname"]
	_, port, err := net.SplitHostPort(addrs[0])
	if name == "" || err != nil {
		return addrs
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() || name == "localhost" {
		return addrs // the way there is known to this machine alone
	}
	if addr := net.JoinHostPort(name, port); !slices.Contains(addrs, addr) {
		addrs = append(addrs, addr)
	}
	return addrs
}

// Addrs implements driver.End.
func (e *end) Addrs() []string { return e.addrs }

// Met implements driver.End.
func (e *end) Met() (string, error) {
	m, err := rpc.Receive[met](e.Stream, rpc.DefaultSize)
	if err != nil {
		return "", &core.Error{Kind: core.Transient, Op: "have hosts meet", Err: err}
	}
	if err := m.Failed.Err(); err != nil {
		return "", &core.Error{Kind: core.Unsupported, Err: err}
	}
	return m.Addr, nil
}

// arrival waits for what becomes of a tree that goes straight from one host, whose
// call's stream tells how it goes, to another.
func arrival(at interface{ Outcome() error }, from io.Reader, direct *driver.Connection) error {
	go func() {
		if follow(from, direct.Progress) != nil {
			direct.Close() // else the receiver waits for what does not come
		}
	}()
	return at.Outcome()
}

// follow reads what the sending host tells, until it has sent all. One that had to
// give up tells the receiver why, but for the loss of the way.
func follow(from io.Reader, told func(done int64)) error {
	for {
		s, err := rpc.Receive[sent](from, rpc.DefaultSize)
		if err != nil {
			return err
		}
		switch {
		case !s.Ended:
			told(s.Bytes)
		case core.IsKind(s.Failed.Err(), core.Lost):
			return s.Failed.Err()
		default:
			return nil
		}
	}
}
