package node

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/wire"
)

// fabricStats answers with what has passed this node's switch.
func (n *node) fabricStats(s *wire.Stream) error {
	stats, err := n.readFabric()
	if err != nil {
		return err
	}
	return s.Reply(stats)
}

func (n *node) readFabric() (fabric.Stats, error) {
	n.mu.Lock()
	f, vm := n.fabric, n.plan.VM
	n.mu.Unlock()
	const op = "read statistics of the guests' network"
	switch {
	case f != nil:
		return f.Stats(), nil
	case vm != nil && vm.Fabric == fabric.Multicast && n.config.Size > 1:
		return fabric.Stats{}, &core.Error{Kind: core.Unsupported, Op: op, Err: errors.New("with multicast the hypervisors speak to each other, and no switch counts"),
			Remedy: "`vm: {fabric: switch}` counts; `ip -s link` in a guest (`bee vm shell`) shows what passes its own interface."}
	}
	return fabric.Stats{}, &core.Error{Kind: core.NotFound, Op: op, Err: errors.New("the run has none (yet)"),
		Remedy: "It is there where the Beefile has `vm:`, more than one node and not `fabric: none`, once the guests are about to start."}
}

// joinFabric makes this node's part of the network between the guests, and
// keeps it linked to the others'.
func (n *node) joinFabric(plan *protocol.Plan) error {
	if plan.VM == nil || n.config.Size == 1 || plan.VM.Fabric == fabric.None {
		return nil
	}
	if err := fabric.Check(plan.VM.Fabric, n.config.Size); err != nil {
		return err
	}
	if plan.VM.Fabric == fabric.Multicast {
		return n.tryMulticast()
	}
	place := placeOf(n.config)
	f := n.household.join(func() *fabric.Fabric { return fabric.New(plan.VM.Fabric, plan.VM.NIC, place, n.Log) })
	n.mu.Lock()
	n.fabric = f
	n.mu.Unlock()
	if n.config.Rank != place.First(place.Host) {
		return nil // the host's first looks after its links
	}
	for _, host := range fabric.Above(plan.VM.Fabric, place.Host) {
		go n.keepLink(n.life, f, host)
	}
	return nil
}

// tryMulticast finds out, before any guest hangs on it, whether this host
// hears what the head sends. The head sends as long as it lives: a few bytes.
func (n *node) tryMulticast() error {
	if n.config.Rank > 0 {
		return fabric.Hear(n.life, n.config.Owner.Run, n.ownIP())
	}
	ip := n.ownIP()
	go func() {
		if err := fabric.Beacon(n.life, n.config.Owner.Run, ip); err != nil {
			n.Log.Warn("send multicast", "err", err)
		}
	}()
	return nil
}

// keepLink links this host's switch to another's, again when that breaks. A way
// that stays broken is told to the user, with whom it cuts off.
func (n *node) keepLink(ctx context.Context, f *fabric.Fabric, host int) {
	w := outage{n: n, host: host}
	for ctx.Err() == nil {
		l, err := n.dialFabric(ctx, f, host)
		if err != nil {
			w.note(err)
		} else {
			w.over()
			select {
			case <-l.Done():
				w.begin(l.Heard(), l.Err())
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(firstPause): // the other may not be as far yet
		case <-ctx.Done():
		}
	}
}

func (n *node) dialFabric(ctx context.Context, f *fabric.Fabric, host int) (*fabric.Link, error) {
	rank := placeOf(n.config).First(host)
	_, m := n.knownPeer(rank)
	c, err := n.dialNode(ctx, m.Addr, rank, forFabric)
	if err != nil {
		return nil, err
	}
	l, err := f.Link(host, c)
	if err != nil {
		c.Close()
	}
	return l, err
}

// acceptFabric takes a link from another host's switch.
func (n *node) acceptFabric(c net.Conn, rank int) error {
	n.mu.Lock()
	f := n.fabric
	n.mu.Unlock()
	if f == nil {
		return errors.New("this node has no switch (yet)")
	}
	_, err := f.Link(rank/max(n.config.PerHost, 1), c)
	return err
}

func (n *node) leaveFabric() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fabric != nil {
		n.household.leave()
	}
}
