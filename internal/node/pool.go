package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sync/errgroup"
)

// pool makes the connections of this node to the others, and keeps them.
type pool struct {
	config   plan.Config
	identity *wire.Identity // nil where there is only one node
	known    *known

	mu      sync.Mutex
	control *rpc.Peer         // to the head, on the other nodes
	peers   map[int]*rpc.Peer // for data, by rank
}

// setHeadConn records the control connection to the head.
func (o *pool) setHeadConn(p *rpc.Peer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.control = p
}

// Peer gives the data connection to another node, made when first needed.
func (o *pool) Peer(ctx context.Context, rank int) (*rpc.Peer, error) {
	p, m := o.knownPeer(rank)
	if p != nil {
		return p, nil
	}
	if m.Addr == "" {
		return nil, &core.Error{Kind: core.NotFound, Op: "reach node", Object: strconv.Itoa(rank), Err: peercall.ErrNoMember}
	}
	c, err := o.dial(ctx, m.Addr, rank, forData)
	if err != nil {
		return nil, o.unreached(ctx, m, err)
	}
	if p, err = rpc.Dial(c.Conn, m.Name, wire.Tolerant, nodecall.Protocol); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if other := o.peers[rank]; other.Alive() { // someone was quicker
		p.Close()
		return other, nil
	}
	o.peers[rank] = p
	return p, nil
}

// knownPeer returns the node of a rank, and the connection to it if there is one.
func (o *pool) knownPeer(rank int) (*rpc.Peer, peercall.Member) {
	m := o.known.member(rank)
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.peers[rank]; p.Alive() {
		return p, m
	}
	return nil, m
}

// ownIP is this host's address, also where its guest has one of its own.
func (o *pool) ownIP() string {
	_, members, _ := o.known.all()
	if o.config.Rank < len(members) {
		return peercall.HostOf(members[o.config.Rank].Addr)
	}
	return "address unknown"
}

// headConn is the control connection to the head.
func (o *pool) headConn() *rpc.Peer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.control
}

// unreached is why another node could not be dialled.
func (o *pool) unreached(ctx context.Context, m peercall.Member, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", handshakeTimeout)
	}
	return &core.Error{
		Kind: core.Lost, Op: "reach host", Object: fmt.Sprintf("%s (%s) from %s (%s)", m.Name, m.Addr, o.config.Host.Name, o.ownIP()), Err: err,
		Remedy: "The hosts of a run must reach each other on any port: open the firewall between them, or name another network by `network:`.",
	}
}

// dial connects to the node of that rank, and to nobody else.
func (o *pool) dial(ctx context.Context, addr string, rank int, purpose string) (*wire.Secure, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	secure := o.identity.SecureClient(c, plan.NodeName(rank), purpose)
	if err := secure.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return secure, nil
}

// dialAround is dial by way of the head, which every node reaches or else is
// lost. Only the two ends know what passes there.
func (o *pool) dialAround(ctx context.Context, rank int, purpose string) (*wire.Secure, error) {
	head, err := o.Peer(ctx, 0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx) // the stream's, which lives on
	late := time.AfterFunc(handshakeTimeout, cancel)
	defer late.Stop()
	s, _, err := rpc.Open(ctx, head, peercall.CallCarry, peercall.CarryRequest{Rank: rank})
	if err != nil {
		cancel()
		return nil, err
	}
	c := o.identity.SecureClient(s, plan.NodeName(rank), purpose)
	if err := c.HandshakeContext(ctx); err != nil {
		s.Close()
		cancel()
		return nil, err
	}
	return c, nil
}

// Carry joins another node, which does not reach a third one, to that.
func (o *pool) Carry(ctx context.Context, _ rpc.Caller, r peercall.CarryRequest, a rpc.Answer[rpc.None]) error {
	_, m := o.knownPeer(r.Rank)
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

// findHead tries all of the head's addresses at once, again and again. TLS
// distinguishes the head from a stranger at the same address.
func (o *pool) findHead(ctx context.Context, addrs []string) (c *wire.Secure, reached string, err error) {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	backoff := fsutil.Backoff{First: firstPause, Longest: longPause}
	for {
		if c, reached, err = o.dialHead(ctx, addrs); err == nil {
			return c, reached, nil
		}
		if backoff.Wait(ctx) != nil {
			return nil, "", &core.Error{Kind: core.Lost, Op: "join the head at", Object: strings.Join(addrs, ", "), Err: err}
		}
	}
}

func (o *pool) dialHead(ctx context.Context, addrs []string) (*wire.Secure, string, error) {
	type found struct {
		conn *wire.Secure
		addr string
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan found, len(addrs))
	for _, addr := range addrs {
		go func() {
			c, err := o.dial(ctx, addr, 0, forControl)
			results <- found{c, addr, err}
		}()
	}
	errs := []error{}
	for i := range addrs {
		f := <-results
		if f.err != nil {
			errs = append(errs, f.err)
			continue
		}
		cancel()
		go func() { // those that were slower
			for range len(addrs) - i - 1 {
				if late := <-results; late.err == nil {
					late.conn.Close()
				}
			}
		}()
		return f.conn, f.addr, nil
	}
	cancel()
	if len(errs) == 0 {
		errs = append(errs, errors.New("the configuration names no address"))
	}
	return nil, "", errors.Join(errs...)
}

// eachPair is up to how many hosts every pair of them is tried: all of a run's
// tries grow with the square of it.
const eachPair = 32

// ReachOthers finds out, before any program hangs on it, whether the hosts
// reach each other. Together the nodes try a ring, and the tree over which
// things spread and launchers go. Where they are few, each knocks at all others as
// well, for MPI may take any of these ways; that of guests goes by their switches.
func (o *pool) ReachOthers(ctx context.Context) error {
	size, own := o.config.Size, o.config.Rank
	job, _, _ := o.known.all()
	next, parent := (own+1)%size, spread.Parent(own)
	g, ctx := errgroup.WithContext(ctx)
	for rank := range size {
		switch {
		case rank == own:
		case rank == next, rank == parent:
			g.Go(func() error { return o.greet(ctx, rank) })
		case size <= eachPair && job.VM == nil:
			g.Go(func() error { return o.knock(ctx, rank) })
		}
	}
	return g.Wait()
}

// greet makes the connection to another node that is used later, and hears it answer.
func (o *pool) greet(ctx context.Context, rank int) error {
	p, err := o.Peer(ctx, rank)
	if err != nil {
		return err
	}
	_, err = rpc.Call(ctx, p, peercall.CallHello, rpc.None{})
	return err
}

// knock connects to another node, and goes: a firewall needs no handshake to show
// itself, and those of all pairs would be felt where hosts have few processors.
func (o *pool) knock(ctx context.Context, rank int) error {
	_, m := o.knownPeer(rank)
	c, err := (&net.Dialer{Timeout: handshakeTimeout}).DialContext(ctx, "tcp", m.Addr)
	if err != nil {
		return o.unreached(ctx, m, err)
	}
	return c.Close()
}
