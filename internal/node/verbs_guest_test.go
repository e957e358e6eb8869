package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
)

// verbsGuest is a guest whose broker notes what it is asked for.
type verbsGuest struct {
	driver.Guest
	served  chan int
	renewed chan int
}

func (g verbsGuest) Broker() driver.GuestBroker { return g }

func (g verbsGuest) Serve(_ context.Context, c net.Conn, rank int) error {
	g.served <- rank
	return c.Close()
}

func (g verbsGuest) Renew(_ context.Context, rank int) error {
	g.renewed <- rank
	return nil
}

func (g verbsGuest) Statistics(context.Context) (core.VerbsPort, error) {
	return core.VerbsPort{Rank: 7, Wakes: 3}, nil
}

// newGuestNode returns a node of three, with virtual machines.
func newGuestNode(t *testing.T, rank int) *node {
	t.Helper()
	c := plan.Config{Rank: rank, Size: 3, Owner: core.Owner{Run: "run"}, Host: core.Host{Name: "beta"}}
	n := newNode(t.Context(), c, Options{Log: slog.New(slog.DiscardHandler), hostGroup: newHostGroup()}, nil)
	n.known.learn(plan.Plan{RDMA: plan.RDMABee, VM: &plan.VM{}}, []peercall.Member{{IP: "10.77.0.1"}, {Rank: 1, IP: "10.77.0.2"}, {Rank: 2}}, peercall.Network{})
	return n
}

// TestVerbsOfAGuest: the broker of a node's guest is to others that of a machine of its own, once it is up.
func TestVerbsOfAGuest(t *testing.T) {
	n := newGuestNode(t, 1)
	c := controllerOf(t, n)
	if _, err := c.Verbs(t.Context()); !core.IsKind(err, core.NotFound) {
		t.Errorf("statistics without a guest: %v", err)
	}
	if _, err := n.verbs.answerBroker(t.Context(), nodeOf(0), rpc.None{}); !core.IsKind(err, core.NotFound) {
		t.Errorf("who runs the broker, without a guest: %v", err)
	}
	_, members, _ := n.known.all()
	o, err := n.verbs.inGuest(t.Context(), members, plan.Plan{RDMA: plan.RDMABee, VM: &plan.VM{}, RDMAMemory: 5, RDMAQPs: 6})
	if err != nil {
		t.Fatal(err)
	}
	if o.Rank != 1 || len(o.Ports) != 3 || o.Memory != 5 || o.QPs != 6 || o.Library != insideVerbs || o.Socket != insideSocket || o.Node != insideNode {
		t.Errorf("the guest gets %+v", o)
	}
	for rank, p := range o.Ports {
		a := verbsAddress("run", rank)
		var ip netip.Addr
		if rank < 2 {
			ip = netip.AddrFrom4([4]byte{10, 77, 0, byte(rank + 1)})
		}
		if p != (driver.BrokerPort{LID: a.LID, GID: a.GID, IP: ip}) {
			t.Errorf("node %d has %+v", rank, p)
		}
	}
	if _, err := c.Verbs(t.Context()); !core.IsKind(err, core.NotFound) {
		t.Errorf("statistics of a guest that is not up: %v", err)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	if err := n.verbs.far.broker.Serve(t.Context(), theirs, 0); !core.IsKind(err, core.NotFound) {
		t.Errorf("a connection with a guest that is not up: %v", err)
	}
	if _, err := ours.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is not closed")
	}
	g := verbsGuest{served: make(chan int, 1), renewed: make(chan int, 1)}
	n.verbs.reach(g)
	if ports, err := c.Verbs(t.Context()); err != nil || !slices.Equal(ports, []core.VerbsPort{{Rank: 1, Wakes: 3}}) {
		t.Errorf("statistics: %+v, %v", ports, err)
	}
	if err := n.verbs.far.broker.Serve(t.Context(), ours, 2); err != nil || <-g.served != 2 {
		t.Errorf("a connection: %v", err)
	}
	for from, renews := range []bool{true, false, false} { // of two nodes, that of the higher rank connects
		r, err := n.verbs.answerBroker(t.Context(), nodeOf(from), rpc.None{})
		if err != nil || r.Rank != 1 {
			t.Errorf("node %d learns of broker %d, %v", from, r.Rank, err)
		}
		if renews {
			select {
			case rank := <-g.renewed:
				if rank != from {
					t.Errorf("the guest connects with node %d", rank)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("the guest does not connect with node %d", from)
			}
		}
	}
	if len(g.renewed) > 0 {
		t.Error("the guest connects with a node that connects by itself")
	}
	b, s := &container.Container{Env: []string{"A=b"}}, driver.ContainerSpec{}
	n.verbs.addToGuest(b, &s)
	if want := "LD_PRELOAD=" + insideVerbs; !slices.Contains(b.Env, want) || !slices.Contains(s.Env, want) || len(s.Mounts)+len(s.Devices) > 0 {
		t.Errorf("the container has %q, %+v", b.Env, s)
	}
}

// busyGuest is a guest that does not answer.
type busyGuest struct {
	verbsGuest
	asked *atomic.Int64
}

func (g busyGuest) Broker() driver.GuestBroker { return g }

func (g busyGuest) Renew(ctx context.Context, _ int) error {
	g.asked.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// TestRenewalsOfABusyGuest: whatever others ask for, a guest is asked once at a time to renew its connection with a node.
func TestRenewalsOfABusyGuest(t *testing.T) {
	n := newGuestNode(t, 2)
	_, members, _ := n.known.all()
	if _, err := n.verbs.inGuest(t.Context(), members, plan.Plan{RDMA: plan.RDMABee, VM: &plan.VM{}, RDMAMemory: 5, RDMAQPs: 6}); err != nil {
		t.Fatal(err)
	}
	g := busyGuest{asked: new(atomic.Int64)}
	n.verbs.reach(g)
	for range 100 {
		n.verbs.far.broker.Renew(0)
		n.verbs.far.broker.Renew(1)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if g.asked.Load() < 2 {
			return errors.New("it is not asked")
		}
		return nil
	})
	n.verbs.guest.mu.Lock()
	defer n.verbs.guest.mu.Unlock()
	if asked, most := g.asked.Load(), len(n.verbs.guest.renewing); asked != 2 || most != 2 {
		t.Errorf("it is asked %d times, and %d are noted", asked, most)
	}
}

// TestQuestionsOfAGuest: a guest asks for other nodes of the run alone, and once at a time.
func TestQuestionsOfAGuest(t *testing.T) {
	s, l := newSilentNode(t) // node 1 of 3; node 0 does not answer
	close(s.out)
	for _, rank := range []int{-1, 1, 3} {
		if err := l.askFor(rank); !core.IsKind(err, core.NotFound) {
			t.Errorf("about node %d: %v", rank, err)
		}
	}
	first := make(chan error, 1)
	go func() { first <- l.askFor(0) }()
	<-s.calls
	if err := l.askFor(0); !core.IsKind(err, core.NotFound) || len(s.calls) > 0 {
		t.Errorf("a second question at the same time: %v", err)
	}
	if err := <-first; err == nil || errors.Is(err, errLeader) {
		t.Errorf("without an answer: %v", err)
	}
	testkit.Eventually(t, 5*time.Second, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.asking) > 0 {
			return errors.New("the question is still noted")
		}
		return nil
	})
}
