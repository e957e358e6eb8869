package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sync/errgroup"
)

// A node has one connection for control, to the head, over which a silence of
// seconds means that the other end is lost; and, for whatever may be much,
// others that are made when they are needed. The TLS handshake's protocol
// name reports which one a connection is.
const (
	forControl = "bee-control"
	forData    = "bee-data"
	forFabric  = "bee-fabric-" // frames of guests, by a connection of that number: see package fabric
	forClear   = "bee-clear-"  // the same, which leaves TLS behind once the ends know each other
)

// purposesOf are the purposes of a link's connections, of one of these kinds.
func purposesOf(kind string) []string {
	all := make([]string, fabric.MostConnections)
	for i := range all {
		all[i] = kind + strconv.Itoa(i)
	}
	return all
}

const handshakeTimeout = wire.HandshakeTimeout

// acceptControl serves the controller and `bee exec`, which have the attempt's key, as
// this node has it.
func (n *node) acceptControl(ctx context.Context, l net.Listener) {
	g := wire.Gate{Failed: n.logRefused}
	g.Serve(l, func(c net.Conn, known func() bool) {
		secure, err := wire.Key(n.config.Shared).Server(ctx, c, plan.NodeName(n.config.Rank), plan.ControllerName)
		if err != nil || !known() {
			n.refused(ctx, "the controller's socket", err)
			return
		}
		peer, err := rpc.NewPeer(secure, false, "the controller", wire.Local, nodecall.Protocol)
		if err != nil {
			secure.Close()
			return
		}
		n.serve(ctx, peer, rpc.Caller{Role: rpc.Controller, Rank: -1})
	})
}

// mostAgents is how many launch agents are served at a time.
const mostAgents = 4096

// acceptAgents serves the launch agents in this node's container or guest. Anyone who runs
// there can come.
func (n *node) acceptAgents(ctx context.Context, l net.Listener) {
	g := wire.Gate{Most: mostAgents, Failed: n.logRefused}
	g.Serve(l, func(c net.Conn, known func() bool) {
		if !known() {
			return
		}
		peer, err := rpc.NewPeer(c, false, "a launch agent", wire.Local, nodecall.Protocol)
		if err != nil {
			c.Close()
			return
		}
		n.serve(ctx, peer, rpc.Caller{Role: rpc.LaunchAgent, Rank: -1})
	})
}

// refused logs a connection that was refused. One that only broke is not worth a line: a
// node may have got through by another address, and a flood of them would fill the log.
func (n *node) refused(ctx context.Context, from string, err error) {
	level := slog.LevelWarn
	if _, broken := errors.AsType[*net.OpError](err); broken || errors.Is(err, io.EOF) {
		level = slog.LevelDebug
	}
	n.Log.Log(ctx, level, "refused a connection", "from", from, "err", err)
}

// acceptPeers serves the other nodes of the attempt, and nobody else.
func (n *node) acceptPeers(ctx context.Context, l net.Listener) {
	g := wire.Gate{Failed: n.logRefused}
	g.Serve(l, func(c net.Conn, known func() bool) {
		if err := n.acceptPeer(ctx, c, known); err != nil {
			c.Close()
			n.refused(ctx, c.RemoteAddr().String(), err)
		}
	})
}

// logRefused reports connections that could not be accepted.
func (n *node) logRefused(err error) { n.Log.Warn("accept a connection", "err", err) }

func (n *node) acceptPeer(ctx context.Context, c net.Conn, known func() bool) error {
	secure := n.identity.SecureServer(c, slices.Concat(purposesOf(forFabric), purposesOf(forClear), []string{forControl, forData})...)
	shake, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(shake); err != nil {
		return err
	}
	if !known() {
		return net.ErrClosed
	}
	name, err := wire.PeerName(secure.Conn)
	if err != nil {
		return err
	}
	rank, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || rank < 0 || rank >= n.config.Size || plan.NodeName(rank) != name {
		return fmt.Errorf("the certificate is of %q, which is no node of this attempt", name)
	}
	purpose := secure.ConnectionState().NegotiatedProtocol
	for _, kind := range []string{forFabric, forClear} {
		if slot := slices.Index(purposesOf(kind), purpose); slot >= 0 {
			return n.acceptFabric(shake, secure, rank, slot, kind == forClear)
		}
	}
	liveness := wire.Tolerant
	if purpose == forControl {
		liveness = wire.Prompt
	}
	peer, err := rpc.NewPeer(secure.Conn, false, name, liveness, nodecall.Protocol)
	if err != nil {
		return err
	}
	n.serve(ctx, peer, nodeOf(rank))
	return nil
}

// nodeOf is the node of a rank as a caller.
func nodeOf(rank int) rpc.Caller {
	if rank == 0 {
		return rpc.Caller{Role: rpc.Head}
	}
	return rpc.Caller{Role: rpc.Node, Rank: rank}
}

func (n *node) serve(ctx context.Context, peer *rpc.Peer, from rpc.Caller) {
	defer peer.Close()
	if err := peer.Serve(ctx, n.server, from); !core.IsKind(err, core.Lost) { // the end of a connection is no error here
		n.Log.Warn("refused a connection", "caller", from.Role.String(), "rank", from.Rank, "err", err)
	}
}

// dialNode connects to the node of that rank, and to nobody else.
func (n *node) dialNode(ctx context.Context, addr string, rank int, purpose string) (*wire.Secure, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	secure := n.identity.SecureClient(c, plan.NodeName(rank), purpose)
	if err := secure.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return secure, nil
}

// dialAround is dialNode by way of the head, which every node reaches or else is
// lost. Only the two ends know what passes there.
func (n *node) dialAround(ctx context.Context, rank int, purpose string) (*wire.Secure, error) {
	head, err := n.peer(ctx, 0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx) // the stream's, which lives on
	late := time.AfterFunc(handshakeTimeout, cancel)
	defer late.Stop()
	s, _, err := rpc.Open(ctx, head, callCarry, carryRequest{rank})
	if err != nil {
		cancel()
		return nil, err
	}
	c := n.identity.SecureClient(s, plan.NodeName(rank), purpose)
	if err := c.HandshakeContext(ctx); err != nil {
		s.Close()
		cancel()
		return nil, err
	}
	return c, nil
}

// carry joins another node, which does not reach a third one, to that.
func (n *node) carry(ctx context.Context, _ rpc.Caller, r carryRequest, a rpc.Answer[rpc.None]) error {
	_, m := n.knownPeer(r.Rank)
	c, err := (&net.Dialer{Timeout: handshakeTimeout}).DialContext(ctx, "tcp", m.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	return wire.Splice(a, c)
}

// peer gives the data connection to another node, made when first needed.
func (n *node) peer(ctx context.Context, rank int) (*rpc.Peer, error) {
	p, m := n.knownPeer(rank)
	if p != nil {
		return p, nil
	}
	if m.Addr == "" {
		return nil, &core.Error{Kind: core.NotFound, Op: "reach node", Object: strconv.Itoa(rank), Err: errNoMember}
	}
	c, err := n.dialNode(ctx, m.Addr, rank, forData)
	if err != nil {
		return nil, n.unreached(ctx, m, err)
	}
	if p, err = rpc.Dial(c.Conn, m.Name, wire.Tolerant, nodecall.Protocol); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if other := n.peers[rank]; alive(other) { // someone was quicker
		p.Close()
		return other, nil
	}
	n.peers[rank] = p
	return p, nil
}

// unreached is why another node could not be dialled.
func (n *node) unreached(ctx context.Context, m member, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", handshakeTimeout)
	}
	return &core.Error{
		Kind: core.Lost, Op: "reach host", Object: fmt.Sprintf("%s (%s) from %s (%s)", m.Name, m.Addr, n.config.Host.Name, n.ownIP()), Err: err,
		Remedy: "The hosts of a run must reach each other on any port: open the firewall between them, or name another network by `network:`.",
	}
}

func (n *node) knownPeer(rank int) (*rpc.Peer, member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var m member
	if rank >= 0 && rank < len(n.members) {
		m = n.members[rank]
	}
	if p := n.peers[rank]; alive(p) {
		return p, m
	}
	return nil, m
}

func alive(p *rpc.Peer) bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// ownIP is this host's address, also where its guest has one of its own.
func (n *node) ownIP() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.config.Rank < len(n.members) {
		return hostOf(n.members[n.config.Rank].Addr)
	}
	return "address unknown"
}

// headConn is the control connection to the head.
func (n *node) headConn() *rpc.Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.control
}

// eachPair is up to how many hosts every pair of them is tried: all of a run's
// tries grow with the square of it.
const eachPair = 32

// reachOthers finds out, before any program hangs on it, whether the hosts
// reach each other. Together the nodes try a ring, and the tree over which
// things spread and launchers go. Where they are few, each knocks at all others as
// well, for MPI may take any of these ways; that of guests goes by their switches.
func (n *node) reachOthers(ctx context.Context) error {
	size, own := n.config.Size, n.config.Rank
	next, parent := (own+1)%size, parentOf(own)
	g, ctx := errgroup.WithContext(ctx)
	for rank := range size {
		switch {
		case rank == own:
		case rank == next, rank == parent:
			g.Go(func() error { return n.greet(ctx, rank) })
		case size <= eachPair && n.plan.VM == nil:
			g.Go(func() error { return n.knock(ctx, rank) })
		}
	}
	return g.Wait()
}

// greet makes the connection to another node that is used later, and hears it answer.
func (n *node) greet(ctx context.Context, rank int) error {
	p, err := n.peer(ctx, rank)
	if err != nil {
		return err
	}
	_, err = rpc.Call(ctx, p, callHello, rpc.None{})
	return err
}

// knock connects to another node, and goes: a firewall needs no handshake to show
// itself, and those of all pairs would be felt where hosts have few processors.
func (n *node) knock(ctx context.Context, rank int) error {
	_, m := n.knownPeer(rank)
	c, err := (&net.Dialer{Timeout: handshakeTimeout}).DialContext(ctx, "tcp", m.Addr)
	if err != nil {
		return n.unreached(ctx, m, err)
	}
	return c.Close()
}
