package broker

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// history plays requests of a few processes.
type history struct {
	t      *testing.T
	r      *rand.Rand
	broker *Broker
	memory *fakeMemory
	nodes  [2]*Node

	sessions []*Session
	number   uint32
	// keys are those that were ever given out, and numbers those of queue pairs.
	keys, numbers []uint32
	giveUps       []func() // of requests that nobody listened for
}

// TestHistories: whatever processes request, and in whatever order, the broker's rules hold,
// and nothing is left once they have ended.
func TestHistories(t *testing.T) {
	count, seed := 300, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("BEE_TEST_HISTORIES")); err == nil {
		count, seed = max(n/10, 1), rand.Uint64()
	}
	for i := range count {
		seed := seed + uint64(i)
		r := rand.New(rand.NewPCG(seed, 0))
		h := &history{t: t, r: r}
		h.broker, h.memory, h.nodes = testBroker(r)
		for range 400 {
			h.step()
			h.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		for _, s := range h.sessions {
			s.Close()
			h.check()
		}
		b := h.broker
		if len(h.memory.open) != 0 || len(b.qps) != 0 || len(b.keys) != 0 || len(b.pairs) != 0 || len(b.groups) != 0 {
			t.Fatalf("seed %d: left are %d segments, %d queue pairs, %d keys, %d pairs, %d groups", seed, len(h.memory.open), len(b.qps), len(b.keys), len(b.pairs), len(b.groups))
		}
		for _, n := range h.nodes {
			if u := n.Usage(); u != (Usage{}) || n.ids != 0 || n.channels != 0 || len(n.ports) != 0 {
				t.Fatalf("seed %d: a node has %+v, %d identifiers, %d channels, %d ports", seed, u, n.ids, n.channels, len(n.ports))
			}
		}
	}
}

// handle is one of a session, mostly of an object of a kind.
func (h *history) handle(s *Session, kind uint32) uint32 {
	var handles []uint32
	for handle, o := range s.objects {
		if o.kind == kind || h.r.IntN(20) == 0 {
			handles = append(handles, handle)
		}
	}
	if len(handles) == 0 || h.r.IntN(30) == 0 {
		return h.r.Uint32N(40)
	}
	slices.Sort(handles)
	return handles[h.r.IntN(len(handles))]
}

func pick[T any](r *rand.Rand, list []T) (x T) {
	if len(list) > 0 {
		x = list[r.IntN(len(list))]
	}
	return x
}

// step plays one request.
func (h *history) step() {
	r := h.r
	h.memory.fails = r.IntN(20) == 0
	if len(h.sessions) == 0 || r.IntN(40) == 0 {
		h.number++
		s, err := h.nodes[r.IntN(2)].Open(h.number, newFakeProcess())
		h.expect(err)
		if err == nil {
			h.sessions = append(h.sessions, s)
		}
		return
	}
	i := r.IntN(len(h.sessions))
	s := h.sessions[i]
	switch r.IntN(21) {
	case 0:
		_, err := s.Create(r.Uint32N(message.Kinds), h.handle(s, message.KindPD))
		h.expect(err)
	case 1:
		h.expect(s.Destroy(h.handle(s, 1+r.Uint32N(message.Kinds-1))))
	case 2, 3:
		q, err := s.CreateQP(&message.CreateQP{
			Type: 2 + r.Uint32N(4), PD: h.handle(s, message.KindPD), SendCQ: h.handle(s, message.KindCQ), RecvCQ: h.handle(s, message.KindCQ),
			SRQ: h.handle(s, message.KindSRQ) * r.Uint32N(2), MaxSend: r.Uint32N(70),
		})
		if h.expect(err); err == nil {
			h.numbers = append(h.numbers, q.Number)
		}
	case 4, 5, 6:
		h.modify(s)
	case 7:
		_, err := s.Connect(h.handle(s, message.KindQP))
		h.expect(err)
	case 8:
		h.expect(s.FailQP(&message.FailQP{Handle: h.handle(s, message.KindQP), SQE: r.Uint32N(2), Event: int32(r.IntN(3)) - 1, Peer: r.Uint32N(2), PeerEvent: int32(r.IntN(3)) - 1}))
	case 9:
		_, _, err := s.CreateRegion(uint64(r.IntN(80)) * 4096)
		h.expect(err)
	case 10:
		region := h.handle(s, message.KindRegion)
		m := &message.Register{PD: h.handle(s, message.KindPD), Access: r.Uint32N(16), Addr: uint64(r.IntN(8192)), Length: uint64(r.IntN(8192))}
		var extents []message.Extent
		if r.IntN(2) == 0 {
			extents = []message.Extent{{Bytes: pagesOf(m.Addr, m.Length), Region: region}}
		}
		if r.IntN(3) == 0 {
			m.Replaces = h.handle(s, message.KindMR)
		}
		var before uint32
		if o := s.objects[m.Replaces]; o != nil && o.mr != nil {
			before = o.mr.key
		}
		got, err := s.Register(m, extents)
		if h.expect(err); err == nil {
			h.keys = append(h.keys, got.Key)
			if m.Replaces != 0 && (got.Key != before || s.objects[m.Replaces] != nil) {
				t := h.t
				t.Errorf("%+v, with key %d, was replaced by %+v", m, before, got)
			}
		}
	case 11:
		h.resolve(s)
	case 12:
		g := &message.Group{Handle: h.handle(s, message.KindQP), GID: [16]byte{0xff, byte(r.IntN(2))}}
		if r.IntN(2) == 0 {
			h.expect(s.Join(g))
		} else {
			h.expect(s.Leave(g))
		}
		_, err := s.Attach(&message.Attach{Number: pick(r, h.numbers), LID: uint16(r.IntN(3))})
		h.expect(err)
	case 13:
		if r.IntN(8) == 0 {
			h.end(i)
		}
	case 14:
		if other := pick(r, h.sessions); h.connect(s, other) && other != s && r.IntN(4) == 0 {
			h.end(slices.Index(h.sessions, other))
		}
	case 15:
		h.dial(s, pick(r, h.sessions))
	default:
		h.identifier(s)
	}
}

// connect takes a queue pair of each session from any state to the other, and reports whether
// they are peers then.
func (h *history) connect(a, b *Session) bool {
	find := func(s *Session) *queuePair {
		if o := s.objects[h.handle(s, message.KindQP)]; o != nil && o.qp != nil && o.qp.kind != Datagram {
			return o.qp
		}
		return nil
	}
	qa, qb := find(a), find(b)
	if qa == nil || qb == nil || qa.kind != qb.kind {
		return false
	}
	for _, q := range []*queuePair{qa, qb} { // after that, none is a side of a former pair
		_, err := q.session.ModifyQP(&message.ModifyQP{Handle: q.handle, Mask: attrState})
		h.expect(err)
	}
	for _, side := range [][2]*queuePair{{qa, qb}, {qb, qa}} {
		s, q := side[0].session, side[0]
		for _, m := range []message.ModifyQP{{State: uint32(Init), Port: 1, Access: 1 + 2*h.r.Uint32N(8)}, {State: uint32(ReadyToReceive), MTU: 1, Destination: side[1].number, LID: side[1].session.node.Address.LID}} {
			m.Handle, m.Mask = q.handle, attrState|changes[q.state][m.State].required[q.kind]
			_, err := s.ModifyQP(&m)
			h.expect(err)
		}
		_, err := s.Connect(q.handle)
		h.expect(err)
	}
	if qa.state != qb.state || h.memory.fails {
		return false
	}
	if qa != qb && qb.pair != nil && qa.peer() != qb {
		h.t.Errorf("%+v and %+v name each other, and are no peers", qa, qb)
	}
	if qa.peer() == nil || h.r.IntN(2) == 0 {
		return qa.peer() != nil
	}
	m := &message.Register{PD: h.handle(b, message.KindPD), Access: 1 + 2*h.r.Uint32N(8), Length: 4096}
	got, err := b.Register(m, nil)
	h.expect(err)
	if err != nil {
		return true
	}
	h.keys = append(h.keys, got.Key)
	resolved, err := a.Resolve(qa.handle, got.Key)
	rights := m.Access & qb.access & remoteRights
	if may := b.objects[m.PD] == qb.pd && rights != 0; (err == nil) != may || resolved.Access != rights && may {
		h.t.Errorf("a key of %+v: %+v, %v", qb, resolved, err)
	}
	return true
}

// modify plays a change of a queue pair: mostly the one that comes next.
func (h *history) modify(s *Session) {
	r := h.r
	m := &message.ModifyQP{
		Handle: h.handle(s, message.KindQP), Mask: attrState, State: r.Uint32N(8), Port: 1, MTU: 1 + r.Uint32N(6), Access: r.Uint32N(16),
		Destination: pick(r, h.numbers), LID: uint16(1 + r.IntN(2)),
	}
	if o := s.objects[m.Handle]; o != nil && o.qp != nil && r.IntN(4) > 0 {
		if m.State = uint32(o.qp.state) + 1; m.State > uint32(ReadyToSend) {
			m.State = 0
		}
		if m.State < uint32(states) {
			m.Mask |= changes[o.qp.state][m.State].required[o.qp.kind]
		}
	} else {
		m.Mask = r.Uint32() & (1<<21 - 1)
	}
	_, err := s.ModifyQP(m)
	h.expect(err)
}

// resolve plays the request for a key, and checks that it is answered to nobody else than a
// peer with the right.
func (h *history) resolve(s *Session) {
	handle, key := h.handle(s, message.KindQP), pick(h.r, h.keys)
	got, err := s.Resolve(handle, key)
	h.expect(err)
	if err != nil {
		return
	}
	m, q := h.broker.keys[key], s.objects[handle].qp
	p := q.peer()
	if m == nil || p == nil || p.peer() != q || m.pd != p.pd || got.Access&^(m.access&p.access&remoteRights) != 0 || got.Access == 0 {
		h.t.Errorf("a key was resolved: %+v for %+v by %+v, of %+v", got, m, q, p)
	}
	if !got.ReadOnly != (got.Access&(RemoteWrite|RemoteAtomic) != 0) || len(got.Extents) != len(m.extents) {
		h.t.Errorf("resolved to %+v", got)
	}
}

// end ends a session, whose peers have to fail.
func (h *history) end(i int) {
	s := h.sessions[i]
	h.sessions = slices.Delete(h.sessions, i, i+1)
	var peers []*queuePair
	for _, o := range s.objects {
		if o.qp == nil {
			continue
		}
		if p := o.qp.peer(); p != nil && p.session != s {
			peers = append(peers, p)
		}
	}
	before := map[*fakeProcess]int{}
	for _, p := range peers {
		process := p.session.process.(*fakeProcess)
		before[process] = process.wakes
	}
	s.Close()
	for _, p := range peers {
		process := p.session.process.(*fakeProcess)
		if p.state != Failed || process.states[p.slot] != uint32(Failed)+1 || process.wakes == before[process] {
			h.t.Errorf("the peer of an ended process is in state %d", p.state)
		}
	}
}

// expect refuses errors that no program may see.
func (h *history) expect(err error) {
	if err == nil || h.memory.fails {
		return
	}
	errno, is := errors.AsType[syscall.Errno](err)
	if !is || !slices.Contains([]syscall.Errno{syscall.EINVAL, syscall.EBUSY, syscall.ENOMEM, syscall.EACCES, syscall.ENOTCONN, syscall.ENOENT, syscall.EOPNOTSUPP, syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.EAGAIN}, errno) {
		h.t.Errorf("got %v", err)
	}
}

// places reports whether a process has the key of a memory region in the last of its places alone.
func places(p *fakeProcess, m *memoryRegion) bool {
	for i, slot := range m.slots {
		if want := map[bool]uint32{true: m.key}[i == len(m.slots)-1]; p.keys[slot] != want {
			return false
		}
	}
	return len(m.slots) > 0
}

// check finds broken rules.
func (h *history) check() {
	t, b := h.t, h.broker
	qps, memory, keys, segments := map[*Node]int{}, map[*Node]int64{}, 0, 0
	users := map[*object]int{}
	pairs := map[*pair]bool{}
	for _, s := range h.sessions {
		process, own := s.process.(*fakeProcess), 0
		for handle, o := range s.objects {
			for _, used := range o.uses {
				users[used]++
			}
			switch {
			case o.qp != nil:
				q := o.qp
				own++
				qps[s.node]++
				if b.qps[q.number] != q || q.handle != handle || process.numbers[q.slot] != q.number || process.states[q.slot] != uint32(q.state)+1 {
					t.Errorf("queue pair %+v is not on record, or its page says otherwise", q)
				}
				if q.inbox != nil {
					segments++
				}
				if q.pair != nil {
					pairs[q.pair] = true
					if q.pair.sides[q.side()] != q {
						t.Errorf("queue pair %+v is no side of its pair", q)
					}
				}
				if p := q.peer(); p != nil && p.peer() != q {
					t.Errorf("queue pair %+v is not the peer of its peer", q)
				}
			case o.mr != nil:
				keys++
				if b.keys[o.mr.key] != o.mr || !places(process, o.mr) {
					t.Errorf("memory region %+v is not on record, or its page says otherwise", o.mr)
				}
			case o.region != nil:
				segments++
				memory[s.node] += o.region.bytes
			}
		}
		if own != len(process.numbers) {
			t.Errorf("a page has %d queue pairs of %d", len(process.numbers), own)
		}
	}
	for _, s := range h.sessions {
		for _, o := range s.objects {
			if o.users != users[o] {
				t.Errorf("an object counts %d users of %d", o.users, users[o])
			}
		}
	}
	for _, n := range h.nodes {
		if u := n.Usage(); n.qps != qps[n] || u.Objects[message.KindQP] != qps[n] || u.Memory != memory[n] || u.Objects[message.KindQP] > n.Limits.QPs || u.Memory > n.Limits.Memory || u.Processes > n.Limits.Processes {
			t.Errorf("a node counts %+v, and has %d queue pairs and %d bytes", u, qps[n], memory[n])
		}
	}
	h.checkIdentifiers()
	for name, p := range b.pairs {
		if p.name != name || !pairs[p] {
			t.Errorf("pair %+v has no queue pair", p)
		}
	}
	if len(b.keys) != keys || len(h.memory.open) != segments+len(pairs) {
		t.Errorf("%d keys of %d, %d segments of %d", len(b.keys), keys, len(h.memory.open), segments+len(pairs))
	}
}
