package broker

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// TestStates has rows of the kernel's table.
func TestStates(t *testing.T) {
	const init, rtr, rts = attrState | attrPKey | attrPort | attrAccess,
		attrState | attrAddress | attrMTU | attrDestination | attrReceivePSN | attrMaxDestRDAtomic | attrMinRNRTimer,
		attrState | attrTimeout | attrRetries | attrRNRRetries | attrSendPSN | attrMaxRDAtomic
	for _, tc := range []struct {
		kind     Type
		from, to State
		mask     uint32
		want     bool
	}{
		{Reliable, Reset, Init, init, true},
		{Reliable, Reset, Init, init &^ attrPort, false},
		{Reliable, Reset, Init, init | attrQKey, false},
		{Datagram, Reset, Init, attrState | attrPKey | attrPort | attrQKey, true},
		{Reliable, Reset, ReadyToReceive, rtr, false},
		{Reliable, Reset, Failed, attrState, false},
		{Reliable, Init, ReadyToReceive, rtr, true},
		{Reliable, Init, ReadyToReceive, rtr | attrAccess, true},
		{Reliable, Init, ReadyToReceive, rtr &^ attrMinRNRTimer, false},
		{Unreliable, Init, ReadyToReceive, rtr &^ (attrMinRNRTimer | attrMaxDestRDAtomic), true},
		{Unreliable, Init, ReadyToReceive, rtr, false},
		{Datagram, Init, ReadyToReceive, attrState, true},
		{Reliable, ReadyToReceive, ReadyToSend, rts, true},
		{Reliable, ReadyToReceive, ReadyToSend, rts &^ attrTimeout, false},
		{Datagram, ReadyToReceive, ReadyToSend, attrState | attrSendPSN, true},
		{Reliable, ReadyToSend, ReadyToReceive, rtr, false},
		{Reliable, ReadyToSend, SendDrained, attrState | attrSQDEvent, true},
		{Reliable, SendDrained, ReadyToSend, attrState | attrCurrent, true},
		{Reliable, SendError, ReadyToSend, attrState | attrCurrent, false},
		{Unreliable, SendError, ReadyToSend, attrState | attrCurrent, true},
		{Reliable, Failed, Reset, attrState, true},
		{Reliable, Failed, Init, init, false},
		{Reliable, Reset, 7, attrState, false},
	} {
		if got := allowed(tc.kind, tc.from, tc.to, tc.mask); got != tc.want {
			t.Errorf("type %d from %d to %d with %#x: %v", tc.kind, tc.from, tc.to, tc.mask, got)
		}
	}
}

// testQP makes a queue pair of a process, and what it needs.
func testQP(t *testing.T, s *Session) (QueuePair, uint32) {
	t.Helper()
	pd, err := s.Create(message.KindPD, 0)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := s.Create(message.KindCQ, 0)
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.CreateQP(&message.CreateQP{Type: uint32(Reliable), PD: pd, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	return q, pd
}

// testConnect takes a queue pair to RTR, and connects it.
func testConnect(t *testing.T, s *Session, handle, number uint32, lid uint16) Connection {
	t.Helper()
	for _, m := range []message.ModifyQP{
		{State: uint32(Init), Access: 15, Port: 1},
		{State: uint32(ReadyToReceive), MTU: 5, Destination: number, LID: lid},
	} {
		m.Handle = handle
		m.Mask = attrState | changes[m.State-1][m.State].required[Reliable]
		if _, err := s.ModifyQP(&m); err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.Connect(handle)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConnectTo: two queue pairs are each other's peers only if both name number and port of
// the other. After the reset of one, both connect again.
func TestConnectTo(t *testing.T) {
	_, _, nodes := testBroker(rand.New(rand.NewPCG(1, 1)))
	a, _ := nodes[0].Open(1, newFakeProcess())
	b, _ := nodes[1].Open(2, newFakeProcess())
	qa, _ := testQP(t, a)
	qb, pd := testQP(t, b)
	other, _ := testQP(t, b)
	first := testConnect(t, a, qa.Handle, qb.Number, 2)
	if c := testConnect(t, b, other.Handle, qa.Number, 1); c.Peer != nil || c.Rings == first.Rings {
		t.Errorf("a queue pair that was not named has connected: %+v", c)
	}
	if c := testConnect(t, b, qb.Handle, qa.Number, 2); c.Peer != nil {
		t.Errorf("with the number at another port: %+v", c)
	}
	reset := func(s *Session, handle uint32) {
		t.Helper()
		if _, err := s.ModifyQP(&message.ModifyQP{Handle: handle, Mask: attrState}); err != nil {
			t.Fatal(err)
		}
	}
	reset(b, qb.Handle)
	reset(a, qa.Handle)
	first = testConnect(t, a, qa.Handle, qb.Number, 2)
	second := testConnect(t, b, qb.Handle, qa.Number, 1)
	if second.Peer != a.process || second.Rings != first.Rings || second.TX != first.RX || second.RX != first.TX {
		t.Errorf("got %+v, and %+v before", second, first)
	}
	mr, err := b.Register(&message.Register{PD: pd, Access: 7, Addr: 1, Length: 10}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Resolve(qa.Handle, mr.Key); err != nil {
		t.Error(err)
	}
	if _, err := b.Resolve(qb.Handle, mr.Key); !errors.Is(err, syscall.EACCES) {
		t.Errorf("its own key: %v", err)
	}
	reset(a, qa.Handle)
	if c := testConnect(t, a, qa.Handle, qb.Number, 2); c.Peer != nil || c.Rings == first.Rings {
		t.Errorf("after a reset of one side: %+v", c)
	}
}

// TestForeignEvents: a process has its peer get events of queue pairs alone.
func TestForeignEvents(t *testing.T) {
	_, _, nodes := testBroker(rand.New(rand.NewPCG(1, 1)))
	a, _ := nodes[0].Open(1, newFakeProcess())
	peer := newFakeProcess()
	b, _ := nodes[1].Open(2, peer)
	qa, _ := testQP(t, a)
	qb, _ := testQP(t, b)
	testConnect(t, a, qa.Handle, qb.Number, 2)
	testConnect(t, b, qb.Handle, qa.Number, 1)
	for _, m := range []message.FailQP{
		{Event: -1, PeerEvent: 0}, {Event: 0, PeerEvent: -1}, {Event: -1, PeerEvent: 8}, {Event: -2, PeerEvent: -1},
	} {
		m.Handle, m.Peer = qa.Handle, 1
		if err := a.FailQP(&m); !errors.Is(err, syscall.EINVAL) || len(peer.events) != 0 {
			t.Errorf("%+v: %v, and the peer gets %v", m, err, peer.events)
		}
	}
	if err := a.FailQP(&message.FailQP{Handle: qa.Handle, Event: -1, Peer: 1, PeerEvent: EventQPAccess}); err != nil || len(peer.events) != 1 {
		t.Errorf("%v, and the peer gets %v", err, peer.events)
	}
}

// TestNodeLimits: regions and memory regions are limited for all processes of a node, and
// what a process leaves is free.
func TestNodeLimits(t *testing.T) {
	_, _, nodes := testBroker(rand.New(rand.NewPCG(1, 1)))
	most := nodes[0].Limits.MRs
	for round := range 2 {
		a, _ := nodes[0].Open(1, newFakeProcess())
		b, _ := nodes[0].Open(2, newFakeProcess())
		for i := range most {
			s := []*Session{a, b}[i%2]
			_, pd := testQP(t, s)
			if _, _, err := s.CreateRegion(4096); err != nil {
				t.Fatalf("region %d in round %d: %v", i, round, err)
			}
			if _, err := s.Register(&message.Register{PD: pd, Addr: 1, Length: 10}, nil); err != nil {
				t.Fatalf("memory region %d in round %d: %v", i, round, err)
			}
		}
		pd, _ := b.Create(message.KindPD, 0)
		if _, _, err := b.CreateRegion(4096); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("another region: %v", err)
		}
		if _, err := b.Register(&message.Register{PD: pd, Addr: 1, Length: 10}, nil); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("another memory region: %v", err)
		}
		a.Close()
		b.Close()
	}
}

// TestGroupLimit: a queue pair is in a limited number of multicast groups at a time.
func TestGroupLimit(t *testing.T) {
	_, _, nodes := testBroker(rand.New(rand.NewPCG(1, 1)))
	s, _ := nodes[0].Open(1, newFakeProcess())
	pd, _ := s.Create(message.KindPD, 0)
	cq, _ := s.Create(message.KindCQ, 0)
	q, err := s.CreateQP(&message.CreateQP{Type: uint32(Datagram), PD: pd, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	group := func(i int) *message.Group {
		return &message.Group{Handle: q.Handle, GID: [16]byte{0xff, 15: byte(i)}}
	}
	for i := range maxGroups {
		if err := s.Join(group(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Join(group(maxGroups)); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("one group more: %v", err)
	}
	if err := s.Leave(group(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Join(group(maxGroups)); err != nil {
		t.Errorf("in the place of another: %v", err)
	}
}
