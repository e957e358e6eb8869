package forward

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// plainHost has memory of this process, and wakes nobody.
type plainHost struct {
	sync.Mutex
	b *broker.Broker
}

type plainSegment struct{ memory []byte }

func (plainSegment) Close() {}

func (*plainHost) New(bytes int64) (broker.Segment, error) {
	return &plainSegment{make([]byte, bytes)}, nil
}
func (h *plainHost) NewSegment(bytes int64) (broker.Segment, error) { return h.New(bytes) }
func (*plainHost) Memory(s broker.Segment) ([]byte, error)          { return s.(*plainSegment).memory, nil }
func (*plainHost) Wake(broker.Process)                              {}
func (h *plainHost) Receiver(lid uint16, number uint32) (broker.Inbox, error) {
	return h.b.Receiver(lid, number)
}

func (h *plainHost) Called(s broker.Step, c broker.FarCall) (broker.FarIdentifier, func(), error) {
	return h.b.Called(s, c)
}

// plainProcess notes the states of queue pairs.
type plainProcess struct{ states, events map[uint32]uint32 }

func newProcess() *plainProcess {
	return &plainProcess{states: map[uint32]uint32{}, events: map[uint32]uint32{}}
}
func (p *plainProcess) SetQP(slot, _, state uint32) { p.states[slot] = state }
func (*plainProcess) SetKey(uint32, uint32)         {}
func (*plainProcess) Wake()                         {}
func (p *plainProcess) Event(event, handle uint32)  { p.events[handle] = event }
func (*plainProcess) Number() uint32                { return 99 }
func (*plainProcess) Sleep(bool)                    {}
func (*plainProcess) EventChannel() (broker.EventChannel, error) {
	return plainChannel{}, nil
}

// plainChannel has a program that looks for events by itself.
type plainChannel struct{}

func (plainChannel) Notify()       {}
func (plainChannel) Close()        {}
func (*plainProcess) Await() error { return errors.New("closed") }

// machine is a broker with one queue pair that is connected to another machine.
type machine struct {
	far     *Far
	process *plainProcess
	session *broker.Session
	pair    *pair
	link    *link
	// queuePair and pd are handles.
	queuePair, pd uint32
}

func newMachine(t *testing.T, rank int, number uint32) *machine {
	t.Helper()
	m := newApart(t, rank, number)
	m.link = &link{far: m.far, ranks: []int{1 - rank}, pairs: map[name]*pair{}, early: map[name]early{}, calls: map[callName]*call{}, backlogs: map[target]*backlog{}, awake: make(chan struct{}, 1)}
	m.far.links[1-rank] = m.link
	m.connect(t)
	m.pair = m.link.order[0]
	return m
}

// newApart returns a machine without a link, whose queue pair has not connected.
func newApart(t *testing.T, rank int, number uint32) *machine {
	t.Helper()
	h := &plainHost{}
	numbers := []uint32{number, number + 1, number + 2, number + 3}
	h.b = broker.New(h, func() uint32 { n := numbers[0]; numbers = append(numbers[1:], n+4); return n })
	address := func(rank int) broker.Address {
		return broker.Address{LID: uint16(rank + 1), IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(rank + 1)})}}
	}
	m := &machine{process: newProcess()}
	m.far = New(Options{
		Host: h, Peer: newProcess(), Build: strings.Repeat("b", message.Build), Ranks: []int{rank}, Size: 2, Address: address, Want: func(int) {}, Warn: func(string, error) {},
		Together: func(int, int) bool { return false },
		Rank:     func(lid uint16, _ bool, _ [16]byte) (int, bool) { return int(lid) - 1, lid == 1 || lid == 2 },
		Named:    func(ip netip.Addr) (int, bool) { n := int(ip.As4()[3]); return n - 1, n == 1 || n == 2 },
	})
	h.b.SetFar(m.far)
	n := h.b.Node(address(rank), broker.Limits{Memory: 1 << 20, QPs: 10, MRs: 10, PDs: 10, CQs: 10, SRQs: 10, AHs: 10, IDs: 40, WR: 1000, Processes: 10})
	s, err := n.Open(1, m.process)
	if err != nil {
		t.Fatal(err)
	}
	m.session = s
	pd, err := s.Create(message.KindPD, 0)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := s.Create(message.KindCQ, 0)
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.CreateQP(&message.CreateQP{Type: uint32(broker.Reliable), PD: pd, SendCQ: cq, RecvCQ: cq, MaxSend: 10, MaxRecv: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []message.ModifyQP{
		{Mask: 1 | 1<<3 | 1<<4 | 1<<5, State: uint32(broker.Init), Access: broker.RemoteWrite | broker.RemoteRead | broker.RemoteAtomic, Port: 1},
		{Mask: 1 | 1<<7 | 1<<8 | 1<<12 | 1<<15 | 1<<17 | 1<<20, State: uint32(broker.ReadyToReceive), MTU: 1, LID: uint16(2 - rank), Destination: 100 + uint32(1-rank)*100},
	} {
		change.Handle = q.Handle
		if _, err := s.ModifyQP(&change); err != nil {
			t.Fatal(err)
		}
	}
	m.queuePair, m.pd = q.Handle, pd
	return m
}

// connect connects the queue pair.
func (m *machine) connect(t *testing.T) {
	t.Helper()
	if _, err := m.session.Connect(m.queuePair); err != nil {
		t.Fatal(err)
	}
}

// pass has a machine take what another has to send.
func pass(t *testing.T, from, to *machine) {
	t.Helper()
	in := bytes.NewReader(from.link.collect(nil))
	for in.Len() > 0 {
		k, raw, err := readFrame(in, make([]byte, mostFrame))
		if err == nil {
			err = to.link.take(k, &body{raw: raw})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newMachines(t *testing.T) (a, b *machine) {
	a, b = newMachine(t, 0, 100), newMachine(t, 1, 200)
	pass(t, a, b)
	pass(t, b, a)
	pass(t, a, b)
	if !a.pair.connected || !b.pair.connected {
		t.Fatal("the queue pairs are not connected")
	}
	return a, b
}

// TestMessagesAndReceives: a message arrives, and the sender learns of receives, of what is consumed and
// of what is carried out.
func TestMessagesAndReceives(t *testing.T) {
	a, b := newMachines(t)
	b.pair.rx.Ring.Post(0, []uint32{64, 128})
	pass(t, b, a)
	if n := a.pair.tx.Ring.Posted(); n != 2 || a.pair.tx.Ring.Capacity(1) != 128 {
		t.Errorf("%d receives are known, the second of %d bytes", n, a.pair.tx.Ring.Capacity(1))
	}
	program := ring.Writer{Ring: a.pair.tx.Ring}
	if err := program.Put(message.Entry{Opcode: message.EntrySend, Bytes: 5, Total: 5, Request: 1}, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	pass(t, a, b)
	reader := ring.Reader{Ring: b.pair.rx.Ring}
	_, raw, is, err := reader.Next()
	if !is || err != nil || string(raw[message.EntryBytes:]) != "hello" {
		t.Fatalf("got %q, %v, %v", raw, is, err)
	}
	if pass(t, b, a); a.pair.seen != 0 {
		t.Errorf("%d bytes are consumed before they are", a.pair.seen)
	}
	reader.Consume(5)
	b.pair.rx.Ring.SetDone(1, 0)
	pass(t, b, a)
	if done, _ := a.pair.tx.Ring.Done(); done != 1 || a.pair.seen != a.pair.sent {
		t.Errorf("request %d is over, and %d of %d bytes are consumed", done, a.pair.seen, a.pair.sent)
	}
}

// TestWindow: no more is under way than the other side has room for, whether its program reads or not.
func TestWindow(t *testing.T) {
	a, b := newMachines(t)
	program := ring.Writer{Ring: a.pair.tx.Ring}
	text := make([]byte, ring.Fragment)
	for range 200 {
		for program.Put(message.Entry{Opcode: message.EntrySend, Bytes: uint32(len(text))}, text) == nil {
		}
		pass(t, a, b)
	}
	if b.pair.broken || a.pair.sent > window {
		t.Errorf("%d bytes were sent to a program that reads nothing (fault: %v)", a.pair.sent, b.pair.broken)
	}
}

// TestKeyThatIsNone: a WRITE with a wrong key ends with an error, and what follows is not carried out.
func TestKeyThatIsNone(t *testing.T) {
	a, b := newMachines(t)
	program := ring.Writer{Ring: a.pair.tx.Ring}
	for n, opcode := range []uint32{message.EntryWrite, message.EntrySend} {
		if err := program.Put(message.Entry{Opcode: opcode, Bytes: 4, Total: 4, Key: 7, Request: uint64(n + 1)}, []byte("data")); err != nil {
			t.Fatal(err)
		}
	}
	pass(t, a, b)
	pass(t, b, a)
	if done, status := a.pair.tx.Ring.Done(); done != 1 || status != accessError {
		t.Errorf("request %d is over with status %d", done, status)
	}
	if (&ring.Reader{Ring: b.pair.rx.Ring}).Waiting() {
		t.Error("what follows a refused request arrived")
	}
}

// TestSideThatEnds: the other side's queue pair fails with an event.
func TestSideThatEnds(t *testing.T) {
	a, b := newMachines(t)
	a.pair.Fail(broker.EventQPFatal)
	pass(t, a, b)
	if len(b.process.events) != 1 {
		t.Errorf("events %v", b.process.events)
	}
}

// TestQueuePairThatComesAndGoes: a queue pair of the other side that connected again, and left, while the connection
// before it was not over here, is none that this side's next one could have.
func TestQueuePairThatComesAndGoes(t *testing.T) {
	a, _ := newMachines(t)
	n := name{own: a.pair.name.other, other: a.pair.name.own}
	frame := func(k kind, text ...byte) []byte {
		out, at := about(nil, k, n)
		return finish(append(out, text...), at)
	}
	connect := frame(frameConnect, 2, 0, 1, 0, byte(broker.Reliable), byte(broker.ReadyToReceive))
	hear(t, a, append(frame(frameGone), connect...))
	old := a.pair
	if len(a.link.early) != 1 {
		t.Fatal("the queue pair of the other side does not wait")
	}
	old.Close()
	hear(t, a, frame(frameState, byte(broker.ReadyToSend)))
	if e := a.link.early[a.pair.name]; e.state != broker.ReadyToSend {
		t.Errorf("it waits in state %d", e.state)
	}
	if hear(t, a, frame(frameGone)); len(a.link.early) > 0 {
		t.Error("it waits, and is gone")
	}
	if a.link.collect(nil); len(a.link.order) > 0 {
		t.Error("the former connection has not ended")
	}
}

// TestEventsThatAreNone: the other side fails a queue pair by its own events alone. By others, the library would take
// it for an object of another type.
func TestEventsThatAreNone(t *testing.T) {
	for _, event := range [][]byte{{0, 0, 0, 0}, {4, 0, 0, 0}, {8, 0, 0, 0}, {16, 0, 0, 0}, {0xfe, 0xff, 0xff, 0xff}, {1}, {}} {
		a, _ := newMachines(t)
		out, at := about(nil, frameFail, name{own: a.pair.name.other, other: a.pair.name.own})
		out = finish(append(out, event...), at)
		if err := a.link.hear(frameFail, out[5:]); !errors.Is(err, errFrame) || len(a.process.events) > 0 {
			t.Errorf("event %v: got %v, events %v", event, err, a.process.events)
		}
	}
}

// TestLinkThatBreaks does the same for all its queue pairs.
func TestLinkThatBreaks(t *testing.T) {
	a, _ := newMachines(t)
	a.link.lost()
	if len(a.process.events) != 1 || a.pair.connected {
		t.Errorf("events %v", a.process.events)
	}
}

// TestStatesThatAreNone: a queue pair is in none of them, whether it is connected or comes early.
func TestStatesThatAreNone(t *testing.T) {
	a, _ := newMachines(t)
	waits := name{own: 999, other: 200}
	a.link.early[waits] = early{kind: broker.Reliable}
	for _, n := range []name{a.pair.name, waits} {
		out, at := about(nil, frameState, name{own: n.other, other: n.own})
		out = finish(append(out, byte(broker.Failed)+1), at)
		if err := a.link.take(frameState, &body{raw: out[5:]}); !errors.Is(err, errFrame) {
			t.Errorf("of queue pair %d: got %v", n.own, err)
		}
	}
}

// FuzzFrames: nothing that another broker sends is believed.
func FuzzFrames(f *testing.F) {
	for k := frameHello; k <= frameStep; k++ {
		out, at := about(nil, k, name{200, 100})
		f.Add(finish(append(out, make([]byte, 80)...), at))
	}
	for _, frame := range lies(callName{number: 7}) {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, _ := newMachines(t)
		newCaller(t, a).listen(7)
		in := bytes.NewReader(raw)
		for in.Len() > 0 {
			k, text, err := readFrame(in, make([]byte, mostFrame))
			if err != nil || a.link.take(k, &body{raw: text}) != nil {
				return
			}
			a.link.collect(nil)
		}
	})
}
