package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// verbsLinks connect this machine's broker with those of others, as queue pairs need it. Of two
// brokers, that of the higher rank makes the connection.
type verbsLinks struct {
	verbs  *verbs
	broker machineBroker
	own    map[int]bool // nodes of this machine

	mu      sync.Mutex
	dialed  map[int]bool // brokers that are connected, by rank
	asking  map[int]bool // nodes that the guest asks about
	leaders map[int]int  // which nodes run the brokers of others, as far as these have answered
}

// machineBroker is the broker of this machine: of this process, or of this node's guest.
type machineBroker interface {
	// Serve connects queue pairs by a connection with the broker that a node runs, until it ends.
	Serve(ctx context.Context, c net.Conn, rank int) error
	// Renew has the connection with such a broker, which claims to have none, be made again. It returns at once.
	Renew(rank int)
}

// askTime bounds the question which node runs the broker of another. In an outage, nothing answers
// by the old connection of the nodes, and it takes minutes to break.
const askTime = 5 * time.Second

var errLeader = errors.New("the node that is named does not run it")

// machines are those of the run as its broker has them. want asks for a link with the broker of a node.
func (l *verbsLinks) machines(own []int, want func(rank int)) server.Machines {
	c := l.verbs.config
	return server.Machines{
		Own:     own,
		Size:    c.Size,
		Address: func(rank int) broker.Address { return verbsAddress(c.Owner.Run, rank) },
		Rank: func(lid uint16, global bool, gid [16]byte) (int, bool) {
			if rank := int(lid) - 1; !global && rank >= 0 && rank < c.Size {
				return rank, true
			}
			rank := int(gid[14])<<8 + int(gid[15]) - 1
			return rank, global && rank >= 0 && rank < c.Size && verbsAddress(c.Owner.Run, rank).GID == gid
		},
		Named: func(ip netip.Addr) (int, bool) {
			_, members, _ := l.verbs.known.all()
			for _, m := range members {
				if !l.own[m.Rank] && memberIP(m) == ip {
					return m.Rank, true
				}
			}
			return 0, false
		},
		Together: l.together,
		Want: func(rank int) {
			if !l.own[rank] {
				want(rank)
			}
		},
	}
}

// together reports whether nodes that are known run on one machine.
func (l *verbsLinks) together(a, b int) bool {
	return together(l.verbs.known.member(a), l.verbs.known.member(b))
}

// ask finds the broker of a node, and connects with it, or has it connect.
func (l *verbsLinks) ask(ctx context.Context, rank int) error {
	rank, err := l.leader(ctx, rank)
	if err != nil || rank > l.verbs.config.Rank || !l.dial(rank) {
		return err
	}
	conn, err := l.verbs.pool.dial(ctx, l.verbs.known.member(rank).Addr, rank, forVerbs)
	if err != nil {
		l.hangUp(rank)
		return err
	}
	go func() {
		l.serve(ctx, conn, rank)
		l.hangUp(rank)
	}()
	return nil
}

// leader returns which node runs the broker of another. It is asked once, unless it is the one that has to connect.
func (l *verbsLinks) leader(ctx context.Context, rank int) (int, error) {
	l.mu.Lock()
	leader, is := l.leaders[rank]
	l.mu.Unlock()
	if is && leader < l.verbs.config.Rank {
		return leader, nil
	}
	if !is {
		leader = rank
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for range 2 { // the node, and then that which runs its broker
		peer, err := l.verbs.pool.Peer(ctx, leader)
		if err != nil {
			return 0, err
		}
		reply, err := rpc.Call(ctx, peer, peercall.CallBroker, rpc.None{})
		if err != nil {
			return 0, err
		}
		if reply.Rank == leader {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.leaders[rank] = leader
			return leader, nil
		}
		if leader = reply.Rank; !l.together(rank, leader) {
			break
		}
	}
	return 0, fmt.Errorf("ask for the broker of node %d: %w", rank, errLeader)
}

// dial notes that a broker is being connected; false: it is.
func (l *verbsLinks) dial(rank int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dialed[rank] {
		return false
	}
	l.dialed[rank] = true
	return true
}

func (l *verbsLinks) hangUp(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.dialed, rank)
}

// serve uses a connection until it ends.
func (l *verbsLinks) serve(ctx context.Context, c *wire.Secure, rank int) {
	if err := l.broker.Serve(ctx, c, rank); err != nil && ctx.Err() == nil {
		l.verbs.log.Warn("the link with another host's bee_0 has ended", "err", err)
	}
}

// answerBroker returns which node runs the broker of this one. One with a higher rank than the
// caller connects with the caller's.
func (v *verbs) answerBroker(_ context.Context, from rpc.Caller, _ rpc.None) (peercall.BrokerReply, error) {
	if v.known.job().RDMA != plan.RDMABee {
		return peercall.BrokerReply{}, errNoVerbs()
	}
	leader, err := v.lead()
	if err != nil {
		return peercall.BrokerReply{}, err
	}
	if l := v.farLinks(); l != nil && leader == v.config.Rank && from.Rank < v.config.Rank {
		l.broker.Renew(from.Rank) // it would not ask
	}
	return peercall.BrokerReply{Rank: leader}, nil
}

// accept uses a connection of another machine's broker.
func (v *verbs) accept(ctx context.Context, c *wire.Secure, rank int) error {
	l := v.farLinks()
	if l == nil {
		return errNoVerbs()
	}
	l.serve(ctx, c, rank)
	return c.Close()
}

func (v *verbs) farLinks() *verbsLinks {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.far
}

func errNoVerbs() error {
	return &core.Error{Kind: core.NotFound, Op: "link with", Object: "bee_0", Err: errors.New("this node runs no broker of such a device (yet)"), Remedy: core.RemedyAgain}
}

// linkTo has the broker connect with those of other machines, where there are some.
func (v *verbs) linkTo(s *server.Server, own []int) error {
	if len(own) == v.config.Size {
		return nil
	}
	l := v.newLinks(own)
	links := server.NewLinks(v.life, s, l.ask)
	l.broker = links
	if err := s.Forward(l.machines(own, links.Want)); err != nil {
		return fmt.Errorf("connect bee_0 with other machines: %w", err)
	}
	v.far = l
	return nil
}

// newLinks returns those of a machine with nodes, without its broker.
func (v *verbs) newLinks(own []int) *verbsLinks {
	l := &verbsLinks{verbs: v, own: map[int]bool{}, dialed: map[int]bool{}, asking: map[int]bool{}, leaders: map[int]int{}}
	for _, rank := range own {
		l.own[rank] = true
	}
	return l
}
