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
// that stays broken is told to the user, with whom it cuts off, and then led by
// the head.
func (n *node) keepLink(ctx context.Context, f *fabric.Fabric, host int) {
	w := outage{n: n, host: host}
	for ctx.Err() == nil {
		l, by, err := n.dialFabric(ctx, f, &w)
		if err != nil {
			w.note(err)
		} else {
			w.over(by)
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

// linkTimeout is how long making a link may take. One that is slower would not
// live: a second of silence ends it.
const linkTimeout = 3 * time.Second

// dialFabric makes a link to another host's switch, or by the head, in an outage
// that lasts; by says so. Who forwards what to whom stays as it is.
func (n *node) dialFabric(ctx context.Context, f *fabric.Fabric, w *outage) (l *fabric.Link, by string, err error) {
	rank := placeOf(n.config).First(w.host)
	_, m := n.knownPeer(rank)
	direct, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	c, err := n.dialNode(direct, m.Addr, rank, forFabric)
	if err != nil && w.host > 0 && w.lasts() {
		if led, e := n.dialAround(ctx, rank, forFabric); e == nil {
			c, by, err = led, ", by way of "+n.hostOf(0), nil
		}
	}
	if err != nil {
		return nil, "", err
	}
	if l, err = f.Link(w.host, c); err != nil {
		c.Close()
	}
	return l, by, err
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
