package guest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// peers starts commands on other guests, over the network between them: so that
// they live on when all guests are brought up elsewhere, which connections by
// way of the nodes outside would not.
type peers struct {
	h        *containerAgent
	o        driver.Peers
	identity *wire.Identity
}

// join serves the launch agents in the container by a socket, and the other
// guests.
func (h *containerAgent) join(o driver.Peers, local net.Listener) error {
	p := &peers{h: h, o: o}
	go p.accept(local, func(c net.Conn) (net.Conn, error) { return c, nil })
	if len(o.Members) < 2 {
		return nil
	}
	var err error
	if p.identity, err = wire.NewIdentity(o.CA, o.Cert, o.Key); err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.Members[o.Rank].IP, strconv.Itoa(api.PeerPort))) //nolint:noctx // it waits for nothing
	if err != nil {
		return fmt.Errorf("listen for the other guests: %w", err)
	}
	go p.accept(l, p.trusted)
	return nil
}

// trusted lets guests of this run through, and nobody else.
func (p *peers) trusted(c net.Conn) (net.Conn, error) {
	secure := tls.Server(c, p.identity.Server())
	if err := secure.HandshakeContext(context.Background()); err != nil { // the gate gives up silent ones
		return nil, err
	}
	name, err := wire.PeerName(secure)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.o.Members, func(m driver.Peer) bool { return m.Identity == name }) {
		return nil, fmt.Errorf("%s is no guest of this run", name)
	}
	return secure, nil
}

func (p *peers) accept(l net.Listener, check func(net.Conn) (net.Conn, error)) {
	g := wire.Gate{Most: mostAgents}
	g.Serve(l, func(c net.Conn, known func() bool) {
		defer c.Close()
		c, err := check(c)
		if err != nil || !known() {
			return
		}
		peer, err := rpc.NewPeer(c, false, "a launch agent", wire.Local, nodecall.Protocol)
		if err != nil {
			return
		}
		defer peer.Close()
		peer.Serve(context.Background(), p.server(), rpc.Caller{Role: rpc.LaunchAgent, Rank: -1})
	})
}

// server gives the calls of others: a guest that is saved as a whole only starts commands.
func (p *peers) server() *rpc.Server {
	s := rpc.NewServer(nil)
	rpc.HandleStream(s, nodecall.CallExec, p.exec)
	return s
}

// exec runs a command here, or passes the call on to the guest that it means.
func (p *peers) exec(ctx context.Context, _ rpc.Caller, r nodecall.ExecRequest, s rpc.Answer[rpc.None]) error {
	if r.Guest {
		return &core.Error{Kind: core.Invalid, Op: "start in the guest", Err: errors.New("a launch agent starts commands in containers only"), Remedy: core.RemedyVersions}
	}
	rank, err := p.target(r)
	if err != nil {
		return err
	}
	if rank != p.o.Rank {
		return p.pass(ctx, s, r, rank)
	}
	box, err := p.h.container()
	if err != nil {
		return err
	}
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	return execute.Place{Start: box.Exec, Env: p.o.Env, Dir: p.o.Dir}.Run(ctx, s, r)
}

// target resolves whom a launch agent means.
func (p *peers) target(r nodecall.ExecRequest) (int, error) {
	if r.Host == "" {
		return r.Rank, nil
	}
	for rank, m := range p.o.Members {
		if m.Name == r.Host || m.IP != "" && m.IP == r.Host {
			return rank, nil
		}
	}
	if r.Host == "localhost" || r.Host == "127.0.0.1" {
		return p.o.Rank, nil
	}
	return 0, &core.Error{Kind: core.NotFound, Op: "start on host", Object: r.Host, Err: errors.New("no guest of this run has that name"), Remedy: "Name a host of BEE_NODELIST."}
}

// pass joins a launch agent with the guest that it means.
func (p *peers) pass(ctx context.Context, s rpc.Answer[rpc.None], r nodecall.ExecRequest, rank int) error {
	if rank < 0 || rank >= len(p.o.Members) {
		return &core.Error{Kind: core.NotFound, Op: "start on node", Object: strconv.Itoa(rank), Err: errors.New("the run has no such node"), Remedy: "Nodes are numbered from 0; `BEE_NUM_NODES` is how many there are."}
	}
	m := p.o.Members[rank]
	c, err := (&tls.Dialer{Config: p.identity.Client(m.Identity)}).DialContext(ctx, "tcp", net.JoinHostPort(m.IP, strconv.Itoa(api.PeerPort)))
	if err != nil {
		return &core.Error{Kind: core.Lost, Op: "reach host", Object: m.Name, Err: err}
	}
	peer, err := rpc.Dial(c, m.Name, wire.Local, nodecall.Protocol)
	if err != nil {
		c.Close()
		return err
	}
	defer peer.Close()
	return execute.Relay(ctx, s, peer, r, rank)
}
