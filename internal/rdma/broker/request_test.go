package broker

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// caller is a process with an event channel, whose requests have to be carried out.
type caller struct {
	t       *testing.T
	s       Connections
	channel uint32
	giveUp  func() // of the last request
}

func newCaller(t *testing.T, n *Node) *caller {
	t.Helper()
	session, err := n.Open(uint32(len(n.sessions)), newFakeProcess())
	if err != nil {
		t.Fatal(err)
	}
	s := session.Connections()
	channel, err := s.CreateEventChannel()
	if err != nil {
		t.Fatal(err)
	}
	return &caller{t: t, s: s, channel: channel}
}

func (c *caller) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) create() uint32 {
	c.t.Helper()
	id, err := c.s.CreateIdentifier(c.channel, SpaceTCP)
	c.must(err)
	return id
}

// listen returns an identifier that listens on port 7 of all addresses.
func (c *caller) listen(backlog uint32) uint32 {
	c.t.Helper()
	id := c.create()
	_, err := c.s.Bind(&message.CMBind{Handle: id, Address: message.CMAddress{Family: 4, Port: 7}})
	c.must(err)
	_, err = c.s.Listen(id, backlog)
	c.must(err)
	return id
}

// request returns an identifier that has requested a connection to port 7 of the first node.
func (c *caller) request() uint32 {
	c.t.Helper()
	id := c.create()
	_, err := c.s.ResolveAddress(&message.CMResolve{Handle: id, Destination: message.CMAddress{Family: 4, Port: 7, IP: [16]byte{10, 0, 0, 1}}})
	c.must(err)
	c.expect(AddressResolved, id, 0)
	c.must(c.s.ResolveRoute(id))
	c.expect(RouteResolved, id, 0)
	giveUp, err := c.s.RequestConnection(&message.CMAnswer{Handle: id, Param: message.CMParam{QP: 99}})
	c.must(err)
	c.giveUp = giveUp
	return id
}

// expect takes an event.
func (c *caller) expect(event, id uint32, status int32) message.CMEvent {
	c.t.Helper()
	e, err := c.s.NextEvent(c.channel)
	if err != nil || e.Event != event || e.Handle != id || e.Status != status {
		c.t.Fatalf("event %d of %d with status %d, %v; expected %d of %d with %d", e.Event, e.Handle, e.Status, err, event, id, status)
	}
	return e
}

func (c *caller) quiet() {
	c.t.Helper()
	if e, err := c.s.NextEvent(c.channel); !errors.Is(err, syscall.EAGAIN) {
		c.t.Errorf("another event: %+v, %v", e, err)
	}
}

// callers are processes of two nodes.
func callers(t *testing.T) (a, b *caller) {
	t.Helper()
	_, _, nodes := testBroker(rand.New(rand.NewPCG(1, 1)))
	for _, n := range nodes {
		n.Limits.IDs = 8
	}
	return newCaller(t, nodes[0]), newCaller(t, nodes[1])
}

// TestBacklog: requests beyond it are rejected, as are those beyond the other container's
// limit; both are no error of the one that requests.
func TestBacklog(t *testing.T) {
	a, b := callers(t)
	l := a.listen(1)
	first := b.request()
	second := b.request()
	b.expect(Rejected, second, reasonConsumer)
	child := a.expect(ConnectRequest, l, 0).Child
	third := b.request() // the first one is taken
	a.must(a.s.RejectConnection(&message.CMAnswer{Handle: child, Reason: reasonConsumer, Param: message.CMParam{PrivateBytes: 2, Private: [196]byte{5, 6, 7}}}))
	if e := b.expect(Rejected, first, reasonConsumer); e.Param.PrivateBytes != 2 || e.Param.Private != [196]byte{5, 6} {
		t.Errorf("the private data of a rejection: %+v", e.Param)
	}
	a.expect(ConnectRequest, l, 0)
	a.s.session.node.Limits.IDs = 0
	b.expect(Rejected, b.request(), reasonConsumer)
	a.must(a.s.session.Destroy(l))
	b.quiet() // the third one is taken, and stays
	if id := b.s.session.objects[third].id; id.state != idConnecting {
		t.Errorf("the third request is in state %d", id.state)
	}
}

// TestLeave: whoever ends, and whenever, the other side learns it, and requests that nobody
// has taken are gone.
func TestLeave(t *testing.T) {
	a, b := callers(t)
	l := a.listen(4)
	untaken := b.request()
	b.must(b.s.session.Destroy(untaken))
	a.quiet()
	if n := a.s.session.node.ids; n != 1 {
		t.Errorf("%d identifiers after a request that was taken back", n)
	}
	taken := b.request()
	child := a.expect(ConnectRequest, l, 0).Child
	b.must(b.s.session.Destroy(taken))
	a.expect(Rejected, child, reasonTimeout)
	if err := a.s.AcceptConnection(&message.CMAnswer{Handle: child}); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("accept a request that is gone: %v", err)
	}
	connected := b.request()
	child = a.expect(ConnectRequest, l, 0).Child
	a.must(a.s.AcceptConnection(&message.CMAnswer{Handle: child, Param: message.CMParam{InitiatorDepth: 3, ResponderResources: 5}}))
	if e := b.expect(ConnectResponse, connected, 0); e.Param.InitiatorDepth != 5 || e.Param.ResponderResources != 3 || e.LID != 1 {
		t.Errorf("the other side of an acceptance: %+v", e)
	}
	b.must(b.s.AcceptConnection(&message.CMAnswer{Handle: connected}))
	a.expect(Established, child, 0)
	waiting := b.request()
	a.s.session.Close()
	for range 2 {
		switch e, err := b.s.NextEvent(b.channel); {
		case err != nil:
			t.Fatal(err)
		case e.Handle == connected && e.Event == Disconnected, e.Handle == waiting && e.Event == Rejected:
		default:
			t.Errorf("event %+v", e)
		}
	}
	b.must(b.s.Disconnect(connected))
	if err := b.s.Disconnect(connected); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("disconnect twice: %v", err)
	}
}

// TestEarlyRequest: a request waits for a listener until it is given up.
func TestEarlyRequest(t *testing.T) {
	a, b := callers(t)
	first := b.request()
	b.quiet()
	b.giveUp()
	b.expect(Rejected, first, reasonNoService)
	second := b.request()
	third := b.request()
	fourth := b.request()
	b.must(b.s.session.Destroy(third))
	l := a.listen(1)
	b.expect(Rejected, fourth, reasonConsumer) // the backlog is for one
	child := a.expect(ConnectRequest, l, 0).Child
	a.quiet()
	b.giveUp()
	b.quiet()
	a.must(a.s.AcceptConnection(&message.CMAnswer{Handle: child}))
	b.expect(ConnectResponse, second, 0)
}

// TestUntakenRequest: a process that guesses the handle of a request, before it has taken the
// event, harms nobody.
func TestUntakenRequest(t *testing.T) {
	a, b := callers(t)
	l := a.listen(4)
	first := b.request()
	child := a.s.session.node.ports[portName{SpaceTCP, 7}][0].channel().events[0].child.handle
	a.must(a.s.session.Destroy(child))
	a.quiet()
	b.expect(Rejected, first, reasonConsumer)
	second := b.request()
	child = a.s.session.node.ports[portName{SpaceTCP, 7}][0].channel().events[0].child.handle
	a.must(a.s.AcceptConnection(&message.CMAnswer{Handle: child}))
	b.expect(ConnectResponse, second, 0)
	if e := a.expect(ConnectRequest, l, 0); e.Child != child {
		t.Errorf("the event names %d, not %d", e.Child, child)
	}
	a.must(a.s.session.Destroy(l))
	a.must(a.s.session.Destroy(child))
	b.expect(Disconnected, second, 0)
}

// TestForeignAddress: whatever a program says of an address, requests to the address of a
// node reach processes of that node alone.
func TestForeignAddress(t *testing.T) {
	a, b := callers(t)
	l := a.listen(4)
	thief := b.create()
	_, err := b.s.Bind(&message.CMBind{Handle: thief, Address: message.CMAddress{Family: 4, Port: 7, Own: 1, IP: [16]byte{10, 0, 0, 1}}})
	b.must(err)
	_, err = b.s.Listen(thief, 4)
	b.must(err)
	c := newCaller(t, a.s.session.node)
	c.request()
	a.expect(ConnectRequest, l, 0)
	b.quiet()
	other := b.create()
	_, err = b.s.Bind(&message.CMBind{Handle: other, Address: message.CMAddress{Family: 4, Port: 8, IP: [16]byte{10, 0, 0, 1}}})
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("an address of another node: %v", err)
	}
}
