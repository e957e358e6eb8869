package node

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/wire"
)

// readFabric gives what has passed this node's switch.
func (n *node) readFabric() (fabric.Stats, error) {
	n.mu.Lock()
	f, vm := n.fabric, n.plan.VM
	n.mu.Unlock()
	const op = "read statistics of the guests' network"
	switch {
	case f != nil:
		return f.Stats(), nil
	case vm != nil && vm.Fabric == fabric.Multicast && n.config.Size > 1:
		return fabric.Stats{}, &core.Error{
			Kind: core.Unsupported, Op: op, Err: errors.New("with multicast the hypervisors speak to each other, and no switch counts"),
			Remedy: "`vm: {fabric: switch}` counts; `ip -s link` in a guest (`bee vm shell`) shows what passes its own interface.",
		}
	}
	return fabric.Stats{}, &core.Error{
		Kind: core.NotFound, Op: op, Err: errors.New("the run has none (yet)"),
		Remedy: "It is there where the Beefile has `vm:`, more than one node and not `fabric: none`, once the guests are about to start.",
	}
}

// joinFabric makes this node's part of the network between the guests, and
// keeps it linked to the others'.
func (n *node) joinFabric(plan *plan.Plan) error {
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
	f := n.hostGroup.join(func() *fabric.Fabric { return fabric.New(plan.VM.Fabric, plan.VM.NIC, place, n.Log) })
	n.mu.Lock()
	n.fabric = f
	n.mu.Unlock()
	if n.config.Rank != place.First(place.Host) {
		return nil // the host's first manages its links
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

// keepLink links this host's switch to another's by as many connections as the link wants.
// A way that stays broken is reported to the user, with whom it cuts off, and then led by
// the head.
func (n *node) keepLink(ctx context.Context, f *fabric.Fabric, host int) {
	w := &outage{n: n, host: host, linked: func() bool { return f.Linked(host) }}
	for {
		select {
		case slot := <-f.Wanted(host):
			go n.keepConnection(ctx, f, w, slot)
		case <-ctx.Done():
			return
		}
	}
}

// keepConnection makes one of a link's connections, again when that breaks: the first one
// soon, and those without which there is a route at longer intervals.
func (n *node) keepConnection(ctx context.Context, f *fabric.Fabric, w *outage, slot int) {
	backoff := fsutil.Backoff{First: firstPause, Longest: longPause}
	for ctx.Err() == nil {
		l, by, err := n.dialFabric(ctx, f, w, slot)
		switch {
		case err == nil:
			backoff.Reset()
			w.over(by)
			select {
			case <-l.Done():
				if l.Last() {
					w.begin(l.Heard(), l.Err())
				}
			case <-ctx.Done():
				return
			}
		case slot == 0:
			w.note(err)
			backoff.Reset()
		}
		backoff.Wait(ctx) //nolint:errcheck // the loop ends with ctx; the other host may not be ready yet
	}
}

// linkTimeout is how long making a link may take. One that is slower would not
// live: a second of silence ends it.
const linkTimeout = 3 * time.Second

// dialFabric makes a connection to another host's switch, the first one by the head in an
// outage that lasts; by says so. Who forwards what to whom stays as it is.
func (n *node) dialFabric(ctx context.Context, f *fabric.Fabric, w *outage, slot int) (l *fabric.Connection, by string, err error) {
	rank := placeOf(n.config).First(w.host)
	_, m := n.knownPeer(rank)
	direct, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	c, err := n.dialDirect(direct, m.Addr, rank, slot)
	if err != nil && slot == 0 && w.host > 0 && w.lasts() {
		if led, e := n.dialAround(ctx, rank, purposesOf(forFabric)[slot]); e == nil {
			c, by, err = led, ", by way of "+n.hostOf(0), nil
		}
	}
	if err != nil {
		return nil, "", err
	}
	if l, err = f.Link(w.host, slot, c); err != nil {
		c.Close()
	}
	return l, by, err
}

// dialDirect makes one connection, in clear if the run has them so.
func (n *node) dialDirect(ctx context.Context, addr string, rank, slot int) (net.Conn, error) {
	if !n.linksInClear() {
		return n.dialNode(ctx, addr, rank, purposesOf(forFabric)[slot])
	}
	secure, err := n.dialNode(ctx, addr, rank, purposesOf(forClear)[slot])
	if err != nil {
		return nil, err
	}
	c, err := secure.Clear(ctx)
	if err != nil {
		secure.Close()
	}
	return c, err
}

// linksInClear reports whether the run wants its links unencrypted. Those that another
// node leads are encrypted all the same, as it is to see nothing of what passes.
func (n *node) linksInClear() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.plan.VM != nil && n.plan.VM.Encryption == plan.EncryptionNone
}

// acceptFabric takes a connection from another host's switch, which may want it in clear.
func (n *node) acceptFabric(ctx context.Context, secure *wire.Secure, rank, slot int, clear bool) error {
	n.mu.Lock()
	f := n.fabric
	n.mu.Unlock()
	switch {
	case f == nil:
		return errors.New("this node has no switch (yet)")
	case clear && !n.linksInClear():
		return errors.New("the run's links are encrypted, and this one was to be in clear")
	}
	var c net.Conn = secure
	if clear {
		var err error
		if c, err = secure.Clear(ctx); err != nil {
			return err
		}
	}
	_, err := f.Link(rank/max(n.config.PerHost, 1), slot, c)
	return err
}

func (n *node) leaveFabric() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fabric != nil {
		n.hostGroup.leave()
	}
}
