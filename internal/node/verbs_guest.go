package node

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
)

// guestBroker is the broker that the agent of this node's guest runs. To the others, each guest is a machine: the
// connections of its broker pass through this node, which knows nothing of what they carry.
type guestBroker struct {
	verbs *verbs

	mu       sync.Mutex
	broker   driver.GuestBroker // nil: the guest is not up yet
	renewing map[int]bool       // nodes whose connection the guest is being asked to renew
}

// inGuest returns what the agent of this node's guest makes its broker of, and has the others reach it from now on. Where
// guests share memory, it is the way to the broker of this machine.
func (v *verbs) inGuest(ctx context.Context, members []peercall.Member, p plan.Plan) (*driver.BrokerOptions, error) {
	c := v.config
	if err := v.addressable(); err != nil {
		return nil, err
	}
	ports := make([]driver.BrokerPort, c.Size)
	for rank := range ports {
		a := verbsAddress(c.Owner.Run, rank)
		ports[rank] = driver.BrokerPort{LID: a.LID, GID: a.GID}
	}
	for _, m := range members {
		if ip := memberIP(m); ip.IsValid() && m.Rank >= 0 && m.Rank < c.Size {
			ports[m.Rank].IP = ip
		}
	}
	o := &driver.BrokerOptions{
		Rank: c.Rank, Ports: ports, Memory: p.RDMAMemory, QPs: p.RDMAQPs, Library: insideVerbs, Socket: insideSocket, Node: insideNode,
	}
	if pooled(p, members) {
		var err error
		o.Pool, err = v.poolFor(ctx)
		return o, err
	}
	g := &guestBroker{verbs: v, renewing: map[int]bool{}}
	l := v.newLinks([]int{c.Rank})
	l.broker = g
	v.mu.Lock()
	defer v.mu.Unlock()
	v.guest, v.far = g, l
	o.Ask = func(_ context.Context, rank int) error { return l.askFor(rank) }
	return o, nil
}

// addToGuest has the programs of a guest's container use the device, which the guest's agent adds.
func (*verbs) addToGuest(b *container.Container, s *driver.ContainerSpec) {
	b.Env, s.Env = preload(b.Env), preload(s.Env)
}

// reach has others reach the broker of a guest that is up.
func (v *verbs) reach(g driver.Guest) {
	v.mu.Lock()
	guest := v.guest
	v.mu.Unlock()
	if guest == nil || g == nil {
		return
	}
	guest.mu.Lock()
	defer guest.mu.Unlock()
	guest.broker = g.Broker()
}

// get returns the broker of a guest that is up.
func (g *guestBroker) get() (driver.GuestBroker, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broker == nil {
		return nil, errNoVerbs()
	}
	return g.broker, nil
}

// Serve implements machineBroker.
func (g *guestBroker) Serve(ctx context.Context, c net.Conn, rank int) error {
	b, err := g.get()
	if err != nil {
		c.Close()
		return err
	}
	return b.Serve(ctx, c, rank)
}

// Renew implements machineBroker.
func (g *guestBroker) Renew(rank int) {
	b, err := g.get()
	if err != nil { // it connects by itself once it is up
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.renewing[rank] { // others ask again, and a guest may never answer
		return
	}
	g.renewing[rank] = true
	go func() {
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			delete(g.renewing, rank)
		}()
		ctx, cancel := context.WithTimeout(g.verbs.life, askTime)
		defer cancel()
		if err := b.Renew(ctx, rank); err != nil {
			g.verbs.log.Debug("have the guest link bee_0 with that of another host", "rank", rank, "err", err)
		}
	}()
}

// statistics returns those of the guest's container.
func (g *guestBroker) statistics(ctx context.Context) (nodecall.Verbs, error) {
	b, err := g.get()
	if err != nil {
		return nodecall.Verbs{}, err
	}
	p, err := b.Statistics(ctx)
	p.Rank = g.verbs.config.Rank
	return nodecall.Verbs{Ports: []core.VerbsPort{p}}, err
}

// askFor is ask for the guest, which may ask for anything, and as often as it likes: one question about a node is
// under way at a time, and the next one waits.
func (l *verbsLinks) askFor(rank int) error {
	l.mu.Lock()
	refused := rank < 0 || rank >= l.verbs.config.Size || l.own[rank] || l.asking[rank]
	if !refused {
		l.asking[rank] = true
	}
	l.mu.Unlock()
	if refused {
		return errNoVerbs()
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.asking, rank)
	}()
	return errors.Join(l.ask(l.verbs.life, rank), core.Sleep(l.verbs.life, askPause))
}

// askPause is the least time between two questions of a guest about a node.
const askPause = 20 * time.Millisecond
