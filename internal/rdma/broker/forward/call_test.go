package forward

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// caller is a program of a machine, which connects by address.
type caller struct {
	t       *testing.T
	machine *machine
	s       broker.Connections
	channel uint32
}

func newCaller(t *testing.T, m *machine) *caller {
	t.Helper()
	c := &caller{t: t, machine: m, s: m.session.Connections()}
	var err error
	c.channel, err = c.s.CreateEventChannel()
	c.must(err)
	return c
}

func (c *caller) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// create makes an identifier; 0: there are enough.
func (c *caller) create() uint32 {
	id, err := c.s.CreateIdentifier(c.channel, broker.SpaceTCP)
	if err != nil {
		return 0
	}
	return id
}

func (c *caller) listen(port uint16) uint32 {
	c.t.Helper()
	id := c.create()
	_, err := c.s.Bind(&message.CMBind{Handle: id, Address: message.CMAddress{Family: 4, Port: port}})
	c.must(err)
	_, err = c.s.Listen(id, 4)
	c.must(err)
	return id
}

// request requests a connection to a port of a machine.
func (c *caller) request(rank int, port uint16) uint32 {
	c.t.Helper()
	id := c.create()
	if id == 0 {
		return 0
	}
	_, err := c.s.ResolveAddress(&message.CMResolve{Handle: id, Destination: message.CMAddress{Family: 4, Port: port, IP: [16]byte{10, 0, 0, byte(rank + 1)}}})
	c.must(err)
	c.must(c.s.ResolveRoute(id))
	_, err = c.s.RequestConnection(&message.CMAnswer{Handle: id, Param: message.CMParam{QP: 99, InitiatorDepth: 3, PrivateBytes: 2, Private: [196]byte{5, 6}}})
	c.must(err)
	return id
}

// next takes an event; one without a handle is none.
func (c *caller) next() message.CMEvent {
	for {
		e, err := c.s.NextEvent(c.channel)
		if err != nil || e.Event != broker.AddressResolved && e.Event != broker.RouteResolved {
			return e
		}
	}
}

func (c *caller) expect(event, id uint32, status int32) message.CMEvent {
	c.t.Helper()
	e := c.next()
	if e.Event != event || e.Handle != id || e.Status != status {
		c.t.Fatalf("event %d of %d with status %d, expected %d of %d with %d", e.Event, e.Handle, e.Status, event, id, status)
	}
	return e
}

// TestCalls: a connection by address begins and ends, with what both sides say of it.
func TestCalls(t *testing.T) {
	a, b := newMachines(t)
	server, client := newCaller(t, a), newCaller(t, b)
	l := server.listen(7)
	id := client.request(0, 7)
	pass(t, b, a)
	e := server.expect(broker.ConnectRequest, l, 0)
	if e.LID != 2 || e.Param.QP != 99 || e.Param.ResponderResources != 3 || e.Param.PrivateBytes != 2 || e.Param.Private != [196]byte{5, 6} || e.Local.Port != 7 {
		t.Errorf("the request: %+v", e)
	}
	server.must(server.s.AcceptConnection(&message.CMAnswer{Handle: e.Child, Param: message.CMParam{QP: 88, InitiatorDepth: 5}}))
	pass(t, a, b)
	if r := client.expect(broker.ConnectResponse, id, 0); r.LID != 1 || r.Param.QP != 88 || r.Param.ResponderResources != 5 {
		t.Errorf("the response: %+v", r)
	}
	client.must(client.s.AcceptConnection(&message.CMAnswer{Handle: id}))
	pass(t, b, a)
	server.expect(broker.Established, e.Child, 0)
	client.must(client.s.Disconnect(id))
	client.expect(broker.Disconnected, id, 0)
	pass(t, b, a)
	server.expect(broker.Disconnected, e.Child, 0)
	server.must(server.s.Disconnect(e.Child))
	if len(a.link.calls)+len(b.link.calls)+a.link.called != 0 {
		t.Errorf("calls %v and %v are left", a.link.calls, b.link.calls)
	}
}

// TestEndAfterMessages: the end of a connection comes after the messages that were sent before it, and not
// much later where these have no room.
func TestEndAfterMessages(t *testing.T) {
	a, b := newMachines(t)
	c := &call{far: a.far, link: a.link, name: callName{1, true}}
	program := ring.Writer{Ring: a.pair.tx.Ring}
	if err := program.Put(message.Entry{Opcode: message.EntrySend}, nil); err != nil {
		t.Fatal(err)
	}
	c.Report(broker.Step{Event: broker.Disconnected}, true, a.pair.name.own)
	if len(a.link.out) > 0 || len(a.link.ends) != 1 {
		t.Error("the end comes before the message")
	}
	pass(t, a, b)
	if a.pair.tx.Waiting() || len(a.link.ends) != 0 {
		t.Error("the message was not sent, or the end was not")
	}
}

// TestHistoriesOfCalls: whatever programs of two machines request, and whenever the link breaks, no call is left
// over, and each request has an end.
func TestHistoriesOfCalls(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		a, b := newMachines(t)
		sides := [2]*caller{newCaller(t, a), newCaller(t, b)}
		requested, over := [2]map[uint32]bool{{}, {}}, [2]map[uint32]bool{{}, {}}
		ids := [2][]uint32{}
		take := func(side int) bool {
			e := sides[side].next()
			switch e.Event {
			case broker.ConnectRequest:
				ids[side] = append(ids[side], e.Child)
			case broker.Rejected, broker.Unreachable, broker.Disconnected:
				over[side][e.Handle] = true
			}
			return e.Handle != 0
		}
		for side := range sides {
			sides[side].listen(7)
		}
		for range 200 {
			side := r.IntN(2)
			c, handle := sides[side], uint32(0)
			if n := len(ids[side]); n > 0 {
				handle = ids[side][r.IntN(n)]
			}
			// Errors are of identifiers in other states.
			switch r.IntN(9) {
			case 0, 1:
				if id := c.request(1-side, 7); id != 0 {
					requested[side][id] = true
					ids[side] = append(ids[side], id)
				}
			case 2, 3:
				_ = c.s.AcceptConnection(&message.CMAnswer{Handle: handle})
			case 4:
				if c.s.RejectConnection(&message.CMAnswer{Handle: handle, Reason: 28}) == nil {
					delete(requested[side], handle)
				}
			case 5:
				_ = c.s.Disconnect(handle)
			case 6:
				if handle != 0 && c.machine.session.Destroy(handle) == nil {
					delete(requested[side], handle)
				}
			default:
				take(side)
			}
			switch r.IntN(3) {
			case 0:
				pass(t, a, b)
			case 1:
				pass(t, b, a)
			}
		}
		if seed%2 == 0 {
			a.session.Close()
			pass(t, a, b)
			pass(t, b, a)
		}
		a.link.lost()
		b.link.lost()
		if len(a.link.calls)+len(b.link.calls)+a.link.called+b.link.called != 0 {
			t.Fatalf("seed %d: calls %v and %v are left", seed, a.link.calls, b.link.calls)
		}
		for side := range sides {
			if side == 0 && seed%2 == 0 {
				continue
			}
			for take(side) {
			}
			for id := range requested[side] {
				if !over[side][id] {
					t.Errorf("seed %d: request %d of machine %d has no end", seed, id, side)
				}
			}
		}
	}
}

// frameOf encodes a frame about a call.
func frameOf(k kind, n callName, parts ...any) []byte {
	out, at := begin(nil, k)
	return finish(write(binary.LittleEndian.AppendUint64(out, n.number), parts...), at)
}

// asked is a request to port 7 of a node, from another, which are named by their LIDs.
func asked(n callName, from, to uint16, ip byte, private uint8) []byte {
	return frameOf(frameCall, n, from, to, broker.SpaceTCP, message.CMAddress{Family: 4}, message.CMAddress{Family: 4, Port: 7, IP: [16]byte{10, 0, 0, ip}}, message.CMParam{PrivateBytes: private})
}

// lies are frames that no broker sends to that of LID 1, about a call.
func lies(n callName) map[string][]byte {
	return map[string][]byte{
		"own port":         asked(n, 1, 1, 1, 0),
		"no port":          asked(n, 9, 1, 1, 0),
		"private data":     asked(n, 2, 1, 1, 57),
		"space":            frameOf(frameCall, n, uint16(2), uint16(1), uint32(1), message.CMAddress{}, message.CMAddress{}, message.CMParam{}),
		"short":            frameOf(frameCall, n, uint16(2)),
		"long":             append(asked(n, 2, 1, 1, 0)[:4:4], append(asked(n, 2, 1, 1, 0)[4:], 0)...),
		"step":             frameOf(frameStep, n, true, broker.ConnectRequest, int32(0), message.CMParam{}),
		"no reason":        frameOf(frameStep, n, true, broker.Rejected, int32(0), message.CMParam{}),
		"step, bytes":      frameOf(frameStep, n, true, broker.ConnectResponse, int32(0), message.CMParam{PrivateBytes: 255}),
		"step of nobody":   frameOf(frameStep, callName{number: 99}, true, broker.Disconnected, int32(0), message.CMParam{}),
		"loopback address": frameOf(frameCall, n, uint16(2), uint16(1), broker.SpaceTCP, message.CMAddress{Family: 4}, message.CMAddress{Family: 4, Port: 7, IP: [16]byte{127, 0, 0, 1}}, message.CMParam{}),
	}
}

// TestLiesAboutCalls: another broker's word counts for its own programs alone, and within what a port has.
func TestLiesAboutCalls(t *testing.T) {
	for name, frame := range lies(callName{number: 7}) {
		t.Run(name, func(t *testing.T) {
			a, _ := newMachines(t)
			c := newCaller(t, a)
			l := c.listen(7)
			take := func(frame []byte) error {
				return a.link.take(kind(frame[4]), &body{raw: frame[5:]})
			}
			known := kind(frame[4]) == frameStep && name != "step of nobody"
			if known {
				c.must(take(asked(callName{number: 7}, 2, 1, 1, 0)))
				c.expect(broker.ConnectRequest, l, 0)
			}
			err := take(frame)
			if tolerated := name == "step of nobody" || name == "loopback address"; (err == nil) != tolerated {
				t.Errorf("got %v", err)
			}
			if e := c.next(); e.Handle != 0 {
				t.Errorf("the program got event %d", e.Event)
			}
		})
	}
}

// TestManyCalls: beyond what may wait for a listener, and beyond what a link has, requests are refused.
func TestManyCalls(t *testing.T) {
	a, _ := newMachines(t)
	refused := func(n uint64) bool {
		a.link.out = nil
		frame := asked(callName{number: n}, 2, 1, 1, 0)
		if err := a.link.take(kind(frame[4]), &body{raw: frame[5:]}); err != nil {
			t.Fatal(err)
		}
		return len(a.link.out) > 0
	}
	for n := range uint64(broker.MostCalling) {
		if refused(n) {
			t.Fatalf("request %d is refused", n)
		}
	}
	if !refused(broker.MostCalling) || a.link.called != broker.MostCalling || len(a.link.calls) != broker.MostCalling {
		t.Errorf("%d requests wait", a.link.called)
	}
	a.link.lost()
	a.link.called = mostCalls
	newCaller(t, a).listen(7)
	if !refused(1) || len(a.link.calls) != 0 {
		t.Errorf("%d calls beyond the limit", len(a.link.calls))
	}
}
