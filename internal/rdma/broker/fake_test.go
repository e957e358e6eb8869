package broker

import (
	"errors"
	"math/rand/v2"
	"net/netip"
)

// fakeMemory counts what is open.
type fakeMemory struct {
	open  map[*fakeSegment]bool
	fails bool
}

type fakeSegment struct {
	memory *fakeMemory
	bytes  int64
}

func (m *fakeMemory) New(bytes int64) (Segment, error) {
	if m.fails {
		return nil, errors.New("no memory")
	}
	s := &fakeSegment{m, bytes}
	m.open[s] = true
	return s, nil
}

func (s *fakeSegment) Close() {
	if !s.memory.open[s] {
		panic("closed twice")
	}
	delete(s.memory.open, s)
}

// fakeProcess has a page, and what was sent.
type fakeProcess struct {
	numbers, states, keys map[uint32]uint32
	wakes                 int
	events                [][2]uint32
	channels              map[*fakeChannel]bool
}

// fakeChannel counts what its process can read.
type fakeChannel struct {
	process *fakeProcess
	packets int
}

func (p *fakeProcess) EventChannel() (EventChannel, error) {
	c := &fakeChannel{process: p}
	p.channels[c] = true
	return c, nil
}

func (c *fakeChannel) Notify() { c.packets++ }
func (c *fakeChannel) Close() {
	if !c.process.channels[c] {
		panic("closed twice")
	}
	delete(c.process.channels, c)
}

func newFakeProcess() *fakeProcess {
	return &fakeProcess{numbers: map[uint32]uint32{}, states: map[uint32]uint32{}, keys: map[uint32]uint32{}, channels: map[*fakeChannel]bool{}}
}

func (p *fakeProcess) SetQP(slot, number, state uint32) {
	if p.numbers[slot], p.states[slot] = number, state; state == 0 {
		delete(p.numbers, slot)
		delete(p.states, slot)
	}
}

func (p *fakeProcess) SetKey(slot, key uint32) {
	if p.keys[slot] = key; key == 0 {
		delete(p.keys, slot)
	}
}

func (p *fakeProcess) Wake() { p.wakes++ }
func (p *fakeProcess) Event(event, handle uint32) {
	p.events = append(p.events, [2]uint32{event, handle})
}

func testLimits() Limits {
	return Limits{Memory: 1 << 20, QPs: 8, PDs: 4, CQs: 4, SRQs: 2, AHs: 2, MRs: 6, IDs: 9, WR: 64, Processes: 3}
}

// testBroker has two nodes, with LIDs 1 and 2.
func testBroker(r *rand.Rand) (*Broker, *fakeMemory, [2]*Node) {
	m := &fakeMemory{open: map[*fakeSegment]bool{}}
	b := New(m, r.Uint32)
	var nodes [2]*Node
	for i := range nodes {
		nodes[i] = b.Node(Address{LID: uint16(i + 1), GID: [16]byte{0xfe, 0x80, 15: byte(i + 1)}, IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}}, testLimits())
	}
	return b, m, nodes
}
