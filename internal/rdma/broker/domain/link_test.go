package domain

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// testHost has descriptors of a file for all, and counts those that came from another broker.
type testHost struct {
	sync.Mutex
	t        testing.TB
	b        *broker.Broker
	file     *os.File
	imported int // that are open
	number   uint32
}

type testSegment struct {
	host *testHost
	fd   int // -1: of this broker
}

func (s *testSegment) Close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.host.imported--
		s.fd = -2
	} else if s.fd == -2 {
		s.host.t.Error("a segment is closed twice")
	}
}

func (h *testHost) New(int64) (broker.Segment, error)        { return &testSegment{h, -1}, nil }
func (h *testHost) NewSegment(int64) (broker.Segment, error) { return h.New(0) }
func (h *testHost) Descriptor(broker.Segment, bool) (int, error) {
	return int(h.file.Fd()), nil
}

func (h *testHost) Segment(fd int, _ int64) (broker.Segment, error) {
	h.imported++
	return &testSegment{h, fd}, nil
}

func (h *testHost) Descriptors(broker.Process) []int {
	fd := int(h.file.Fd())
	return []int{fd, fd, fd}
}

func (h *testHost) Process(descriptors []int) (Process, error) {
	h.imported += len(descriptors)
	h.number++
	return &testStranger{host: h, number: 1000 + h.number, descriptors: descriptors}, nil
}

func (h *testHost) Receiver(lid uint16, number uint32) (broker.Inbox, error) {
	return h.b.Receiver(lid, number)
}

func (h *testHost) Called(s broker.Step, c broker.FarCall) (broker.FarIdentifier, func(), error) {
	return h.b.Called(s, c)
}
func (h *testHost) Answer() { h.b.Answer() }

// testProcess notes the last state of each queue pair, and its events.
type testProcess struct {
	states map[uint32]uint32
	events []uint32
}

func (p *testProcess) SetQP(slot, _, state uint32)              { p.states[slot] = state }
func (*testProcess) SetKey(uint32, uint32)                      {}
func (*testProcess) Wake()                                      {}
func (p *testProcess) Event(event, _ uint32)                    { p.events = append(p.events, event) }
func (*testProcess) EventChannel() (broker.EventChannel, error) { return testChannel{}, nil }

type testChannel struct{}

func (testChannel) Notify() {}
func (testChannel) Close()  {}

type testStranger struct {
	testProcess
	host        *testHost
	number      uint32
	descriptors []int
}

func (p *testStranger) Number() uint32 { return p.number }
func (p *testStranger) Close() {
	closeAll(p.descriptors)
	p.host.imported -= len(p.descriptors)
	p.descriptors = nil
}

// side is a broker of a domain of two, with one port.
type side struct {
	host *testHost
	far  *Far
	node *broker.Node
	link *link
}

func address(lid uint16) broker.Address {
	return broker.Address{LID: lid, GID: [16]byte{0xfe, 0x80, 15: byte(lid)}, IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(lid)})}}
}

// newSides returns two, whose links have no connection: pass does what that would.
func newSides(t testing.TB, random func() uint32) [2]*side {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	var sides [2]*side
	for i := range sides {
		h := &testHost{t: t, file: file}
		h.b = broker.New(h, random)
		own := address(uint16(i + 1))
		s := &side{host: h, far: New(Options{Host: h, Build: testBuild, Own: []broker.Address{own}, Network: 1, Warn: func(text string, err error) { t.Errorf("%s: %v", text, err) }})}
		h.b.SetFar(s.far)
		s.node = h.b.Node(own, broker.Limits{Memory: 1 << 30, QPs: 100, MRs: 100, PDs: 100, CQs: 100, SRQs: 10, AHs: 10, IDs: 40, WR: 1000, Processes: 100})
		s.link = newLink(s.far, new(net.UnixConn), []broker.Address{address(uint16(2 - i))}, 1)
		if !s.far.add(s.link) {
			t.Fatal("no link is added")
		}
		sides[i] = s
	}
	return sides
}

// pass has the other side take the first message of a side; false: there is none.
func pass(t testing.TB, from, to *side) bool {
	if len(from.link.out) == 0 {
		return false
	}
	p := from.link.out[0]
	from.link.out = from.link.out[1:]
	d := passed{p.descriptors}
	if err := to.link.take(kind(p.raw[0]), p.raw[1:], &d); err != nil {
		t.Fatalf("message %d: %v", p.raw[0], err)
	}
	closeAll(d.left)
	return true
}

// settle passes all messages.
func settle(t testing.TB, s [2]*side) {
	for pass(t, s[0], s[1]) || pass(t, s[1], s[0]) {
	}
}

// program is a process with a queue pair.
type program struct {
	process *testProcess
	session *broker.Session
	pd      uint32
	qp      broker.QueuePair
	kind    broker.Type
}

func (s *side) program(t testing.TB, number uint32, kind broker.Type) *program {
	t.Helper()
	p := &program{process: &testProcess{states: map[uint32]uint32{}}, kind: kind}
	var err error
	if p.session, err = s.node.Open(number, p.process); err != nil {
		t.Fatal(err)
	}
	cq := uint32(0)
	for kind, handle := range map[uint32]*uint32{message.KindPD: &p.pd, message.KindCQ: &cq} {
		if *handle, err = p.session.Create(kind, 0); err != nil {
			t.Fatal(err)
		}
	}
	if p.qp, err = p.session.CreateQP(&message.CreateQP{Type: uint32(kind), PD: p.pd, SendCQ: cq, RecvCQ: cq, MaxSend: 10, MaxRecv: 10}); err != nil {
		t.Fatal(err)
	}
	return p
}

// modify changes the state of the queue pair, and reports whether that was allowed.
func (p *program) modify(state broker.State, to uint32, lid uint16) bool {
	m := message.ModifyQP{Handle: p.qp.Handle, Mask: 1, State: uint32(state)}
	const pkey, port, access, qkey = 1 << 4, 1 << 5, 1 << 3, 1 << 6
	switch {
	case state == broker.Init && p.kind == broker.Datagram:
		m.Mask |= pkey | port | qkey
	case state == broker.Init:
		m.Mask |= pkey | port | access
	case state == broker.ReadyToReceive && p.kind != broker.Datagram:
		m.Mask |= 1<<7 | 1<<8 | 1<<12 | 1<<15 | 1<<17 | 1<<20
	}
	m.Port, m.MTU, m.LID, m.Destination = 1, 1, lid, to
	m.Access = broker.LocalWrite | broker.RemoteWrite | broker.RemoteRead | broker.RemoteAtomic
	_, err := p.session.ModifyQP(&m)
	return err == nil
}

func (p *program) ready(t testing.TB, to uint32, lid uint16) {
	t.Helper()
	if !p.modify(broker.Init, 0, 0) || !p.modify(broker.ReadyToReceive, to, lid) {
		t.Fatal("the queue pair does not change its state")
	}
}

// connected returns programs of two sides whose queue pairs are connected, and their connections.
func connected(t testing.TB, s [2]*side, first int) (p [2]*program, c [2]broker.Connection) {
	t.Helper()
	for i := range p {
		p[i] = s[i].program(t, uint32(10+i), broker.Reliable)
	}
	for i := range p {
		p[i].ready(t, p[1-i].qp.Number, uint16(2-i))
	}
	for _, i := range []int{first, 1 - first} {
		_, err := p[i].session.Connect(p[i].qp.Handle)
		if _, pending := errors.AsType[*broker.Pending](err); err != nil && (!pending || i == 0) {
			t.Fatal(err)
		}
		if first == 1 {
			settle(t, s)
		}
	}
	settle(t, s)
	for i := range p {
		var err error
		if c[i], err = p[i].session.Connect(p[i].qp.Handle); err != nil || c[i].Peer == nil || c[i].Far {
			t.Fatalf("side %d: %+v, %v", i, c[i], err)
		}
	}
	return p, c
}

// TestConnectionOfTwoRuns: whichever side is first, both have the rings that one has made, and each other's process.
func TestConnectionOfTwoRuns(t *testing.T) {
	for first := range 2 {
		s := newSides(t, rand.Uint32)
		p, c := connected(t, s, first)
		if c[0].TX != c[1].RX || c[1].TX != c[0].RX || c[0].TX == c[0].RX {
			t.Errorf("the rings are %+v and %+v", c[0], c[1])
		}
		if own := c[0].Rings.(*testSegment); own.fd != -1 {
			t.Error("the side with the lower LID has not made the rings")
		}
		if c[1].PeerSlot != p[0].qp.Slot {
			t.Errorf("the slot is %d, not %d", c[1].PeerSlot, p[0].qp.Slot)
		}
		p[0].session.Close()
		s[0].far.Ended(10)
		settle(t, s)
		if len(p[1].process.events) != 1 || p[1].process.states[p[1].qp.Slot] != uint32(broker.Failed)+1 {
			t.Errorf("the peer of a process that has ended: %+v", p[1].process)
		}
		p[1].session.Close()
		s[1].far.Ended(11)
		settle(t, s)
		for i := range s {
			if n := s[i].host.imported; n != 0 {
				t.Errorf("side %d has %d descriptors of processes that have ended", i, n)
			}
		}
	}
}

// TestLinkThatEnds: all queue pairs of a link fail with it, and what waits for an answer does so no more.
func TestLinkThatEnds(t *testing.T) {
	s := newSides(t, rand.Uint32)
	p, _ := connected(t, s, 0)
	_, err := p[0].session.Resolve(p[0].qp.Handle, 7)
	pending, is := errors.AsType[*broker.Pending](err)
	if !is {
		t.Fatal(err)
	}
	s[0].link.lost()
	<-pending.Done
	if len(p[0].process.events) != 1 || p[0].process.states[p[0].qp.Slot] != uint32(broker.Failed)+1 {
		t.Errorf("the queue pair: %+v", p[0].process)
	}
	if _, err := p[0].session.Resolve(p[0].qp.Handle, 7); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("a key of a broker that has ended: %v", err)
	}
	if s[0].far.Has(2, false, [16]byte{}) || s[0].host.imported != 0 {
		t.Errorf("%d descriptors are left", s[0].host.imported)
	}
	p[0].session.Close()
}

// TestRingsThatNeverCome: a queue pair whose rings another broker does not make fails with the link. Before, requests that
// wait for a broker that does not answer end at once, until it does.
func TestRingsThatNeverCome(t *testing.T) {
	s := newSides(t, rand.Uint32)
	var p [2]*program
	for i := range s {
		p[i] = s[i].program(t, uint32(10+i), broker.Reliable)
	}
	p[1].ready(t, p[0].qp.Number, 1)
	connect := func() error {
		_, err := p[1].session.Connect(p[1].qp.Handle)
		return err
	}
	pending, is := errors.AsType[*broker.Pending](connect())
	if !is {
		t.Fatal("it does not wait")
	}
	pending.Late()
	if err := connect(); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("a broker that does not answer: %v", err)
	}
	if _, err := p[1].session.Attach(&message.Attach{Number: 7, LID: 1}); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("a question to it: %v", err)
	}
	s[1].link.lost()
	<-pending.Done
	if len(p[1].process.events) != 1 || p[1].process.states[p[1].qp.Slot] != uint32(broker.Failed)+1 {
		t.Errorf("the queue pair: %+v", p[1].process)
	}
	p[1].session.Close()
}

// TestEndOfALargeProcess: a process with as many queue pairs as there may be ends, and its links stay.
func TestEndOfALargeProcess(t *testing.T) {
	s := newSides(t, rand.Uint32)
	l := s[0].link
	send := func(k kind, n int, part any) {
		for range n {
			l.send(k, nil, part)
		}
	}
	for range 2 {
		send(kindFail, message.Slots, fail{})
		send(kindGone, message.Slots, about{})
		send(kindEnded, 1, number{})
	}
	send(kindConnect, mostWaiting, connect{})
	ends := false
	s[0].far.o.Warn = func(string, error) { ends = true }
	if send(kindConnect, 1, connect{}); !ends {
		t.Error("any number of messages waits for a broker that does not read")
	}
}

// TestCrowded: who has written to a link that much waits for waits, and nobody else.
func TestCrowded(t *testing.T) {
	s := newSides(t, rand.Uint32)
	f := s[0].far
	for range crowd {
		f.Listen(broker.Listener{LID: 1}, true)
	}
	if f.Crowded() == nil {
		t.Error("who has written does not wait")
	}
	if f.Crowded() != nil {
		t.Error("who has not written waits")
	}
}

// TestSameGIDs: a broker with a GID that another one has is not linked with.
func TestSameGIDs(t *testing.T) {
	s := newSides(t, rand.Uint32)
	for lid := uint16(1); lid < 3; lid++ {
		other := address(7)
		other.GID = address(lid).GID
		if s[0].far.add(newLink(s[0].far, new(net.UnixConn), []broker.Address{other}, 1)) {
			t.Errorf("two have the GID of %d", lid)
		}
	}
}

// asked asks for a key until there is an answer.
func asked(t testing.TB, s [2]*side, p *program, key uint32) (broker.Resolution, error) {
	t.Helper()
	for range 3 {
		r, err := p.session.Resolve(p.qp.Handle, key)
		if _, pending := errors.AsType[*broker.Pending](err); !pending {
			return r, err
		}
		settle(t, s)
	}
	t.Fatal("there is no answer")
	return broker.Resolution{}, nil
}

// TestKeysOfAnotherRun: a key opens what its owner has registered for it, to the peer of a queue pair of its protection
// domain alone.
func TestKeysOfAnotherRun(t *testing.T) {
	s := newSides(t, rand.Uint32)
	p, _ := connected(t, s, 0)
	owner := p[1]
	region, _, err := owner.session.CreateRegion(8192)
	if err != nil {
		t.Fatal(err)
	}
	register := func(pd, access uint32) broker.Registered {
		mr, err := owner.session.Register(&message.Register{PD: pd, Access: access, Addr: 4096, Length: 8192, IOVA: 4096}, []message.Extent{{Bytes: 8192, Region: region}})
		if err != nil {
			t.Fatal(err)
		}
		return mr
	}
	other, err := owner.session.Create(message.KindPD, 0)
	if err != nil {
		t.Fatal(err)
	}
	mr := register(owner.pd, broker.LocalWrite|broker.RemoteWrite)
	r, err := asked(t, s, p[0], mr.Key)
	if err != nil || r.Access != broker.RemoteWrite || r.Slot != mr.Slot || len(r.Extents) != 1 || r.Extents[0].Bytes != 8192 || len(r.Segments) != 1 || !r.Lent {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, segment := range r.Segments {
		segment.Close()
	}
	for what, key := range map[string]uint32{"of another domain": register(other, broker.LocalWrite|broker.RemoteWrite).Key, "without a right": register(owner.pd, broker.LocalWrite).Key, "that is none": mr.Key + 1} {
		if r, err := asked(t, s, p[0], key); !errors.Is(err, syscall.EACCES) {
			t.Errorf("a key %s: %+v, %v", what, r, err)
		}
	}
	if err := owner.session.Destroy(mr.Handle); err != nil {
		t.Fatal(err)
	}
	if r, err := asked(t, s, p[0], mr.Key); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a void key: %+v, %v", r, err)
	}
}

// TestHistories: whatever programs of two runs do, and whenever messages arrive, no broker sends what is none, and
// nothing is left in the end.
func TestHistories(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := newSides(t, r.Uint32)
		var programs [2][]*program
		number := uint32(0)
		end := func(i, at int) {
			p := programs[i][at]
			p.session.Close()
			s[i].far.Ended(p.session.Number)
			programs[i] = append(programs[i][:at:at], programs[i][at+1:]...)
		}
		for range 300 {
			i := r.IntN(2)
			if len(programs[i]) < 3 {
				number++
				programs[i] = append(programs[i], s[i].program(t, number, []broker.Type{broker.Reliable, broker.Unreliable, broker.Datagram}[r.IntN(3)]))
			}
			at := r.IntN(len(programs[i]))
			p := programs[i][at]
			other := p
			if others := programs[1-i]; len(others) > 0 {
				other = others[r.IntN(len(others))]
			}
			lid := uint16(2 - i)
			switch r.IntN(12) {
			case 0:
				p.modify(broker.Reset, 0, 0)
			case 1, 2:
				p.modify(broker.Init, 0, 0)
			case 3, 4:
				p.modify(broker.ReadyToReceive, other.qp.Number, lid)
			case 5, 6:
				_, err := p.session.Connect(p.qp.Handle)
				if _, pending := errors.AsType[*broker.Pending](err); err != nil && !pending && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTCONN) {
					t.Fatal(err)
				}
			case 7:
				if m, err := p.session.Resolve(p.qp.Handle, 7); err == nil {
					t.Fatalf("key 7 opens %+v", m)
				}
			case 8:
				if in, err := p.session.Attach(&message.Attach{Number: other.qp.Number, LID: lid}); err == nil && in.Lent {
					in.Segment.Close()
				}
			case 9:
				if r.IntN(8) == 0 {
					end(i, at)
				}
			default:
				pass(t, s[i], s[1-i])
			}
		}
		for i := range s {
			for len(programs[i]) > 0 {
				end(i, 0)
			}
		}
		settle(t, s)
		for i := range s {
			l := s[i].link
			if len(l.pairs)+len(l.early)+len(l.processes)+len(l.known) > 0 {
				t.Errorf("seed %d: side %d has %d connections, %d early ones, %d processes, and the other side %d of it", seed, i, len(l.pairs), len(l.early), len(l.processes), len(l.known))
			}
			l.lost()
			if n := s[i].host.imported; n != 0 {
				t.Errorf("seed %d: %d descriptors are left", seed, n)
			}
		}
	}
}

// FuzzMessages: nothing that another broker sends is believed.
func FuzzMessages(f *testing.F) {
	s := newSides(f, rand.Uint32)
	connected(f, s, 0)
	for k := kindHello; k <= kindStep+1; k++ {
		f.Add(append([]byte{byte(k)}, make([]byte, 64)...))
	}
	for _, part := range []any{about{}, connect{}, fail{}, resolve{}, resolved{Extents: 2}, attached{}, member{}, listener{}, call{}, step{}} {
		for k := kindProcess; k <= kindStep; k++ {
			if raw, err := encode(k, part); err == nil {
				f.Add(raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 {
			return
		}
		s := newSides(t, rand.Uint32)
		connected(t, s, 0)
		fd, err := unix.FcntlInt(s[0].host.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		d := passed{[]int{fd}}
		err = s[0].link.take(kind(raw[0]), raw[1:], &d)
		closeAll(d.left)
		if err == nil {
			_, err = decodePort(raw[1:])
		}
		_ = err // most are none
		s[0].link.lost()
		if n := s[0].host.imported; n != 0 {
			t.Errorf("%d descriptors are left", n)
		}
	})
}
