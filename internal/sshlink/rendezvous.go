package sshlink

import (
	"context"
	"io"
	"net"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
)

// end is the call by which a host's agent takes part in a rendezvous.
type end struct {
	*rpc.Stream
	addrs []string
}

// Rendezvous has the agent of a link take part in a rendezvous.
func (p *Client) Rendezvous(ctx context.Context, k *Link, m driver.RendezvousSpec) (driver.End, error) {
	s, at, err := rpc.Open(ctx, k.Peer, callRendezvous, rendezvousRequest{m})
	if err != nil {
		return nil, Transient(err)
	}
	e := &end{s, at.Addrs}
	if len(e.addrs) > 0 {
		e.addrs = p.withName(ctx, k.host, e.addrs)
	}
	return e, nil
}

// withName adds to the addresses of a host that by which ssh knows it: where
// addresses are translated on the way to it, it does not know that one itself.
func (p *Client) withName(ctx context.Context, host string, addrs []string) []string {
	name := configured(ctx, p.s.Program, host, p.s.Options)["hostname"]
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
		return "", &core.Error{Kind: core.Transient, Op: "connect two hosts", Err: err}
	}
	if err := m.Failed.Err(); err != nil {
		return "", &core.Error{Kind: core.Unsupported, Err: err}
	}
	return m.Addr, nil
}

// Arrival waits for the outcome of a direct transfer. The sending host reports progress on
// the stream of its call.
func Arrival(at interface{ Outcome() error }, from io.Reader, direct *driver.Connection) error {
	go func() {
		if follow(from, direct.Progress) != nil {
			direct.Close() // else the receiver waits for what does not come
		}
	}()
	return at.Outcome()
}

// follow reads what the sending host reports, until it has sent all. One that had to
// give up reports to the receiver why, but for the loss of the way.
func follow(from io.Reader, progress func(done int64)) error {
	for {
		s, err := rpc.Receive[sent](from, rpc.DefaultSize)
		if err != nil {
			return err
		}
		switch {
		case !s.Ended:
			progress(s.Bytes)
		case core.IsKind(s.Failed.Err(), core.Lost):
			return s.Failed.Err()
		default:
			return nil
		}
	}
}
