package broker

import (
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Rights, as enum ibv_access_flags has them.
const (
	LocalWrite   = 1
	RemoteWrite  = 2
	RemoteRead   = 4
	RemoteAtomic = 8
	zeroBased    = 32
	hugePages    = 128
	// optionalRights may be ignored.
	optionalRights = 0x3ff00000

	remoteRights  = RemoteWrite | RemoteRead | RemoteAtomic
	knownRights   = LocalWrite | remoteRights | zeroBased | hugePages | optionalRights
	pageSize      = 4096
	pageRemainder = pageSize - 1
)

// region is shared memory, into which a process has moved pages.
type region struct {
	bytes   int64
	segment Segment
}

// memoryRegion is one of verbs: a range of a process's memory with rights.
type memoryRegion struct {
	pd                 *object
	node               *Node
	key                uint32
	slots              []uint32 // the last one has the key; the others had it before
	access             uint32
	addr, length, iova uint64
	extents            []extent // none: the owner copies
}

type extent struct {
	region            *region
	offset, at, bytes uint64
}

// CreateRegion makes shared memory of whole pages.
func (s *Session) CreateRegion(bytes uint64) (handle uint32, segment Segment, err error) {
	n := s.node
	if bytes == 0 || bytes%pageSize != 0 || bytes > 1<<62 {
		return 0, nil, syscall.EINVAL
	}
	if n.regions >= n.Limits.MRs {
		return 0, nil, &Limit{Name: "blocks of memory with remote rights of a container", Value: int64(n.Limits.MRs)}
	}
	if int64(bytes) > n.Limits.Memory-n.memory {
		return 0, nil, &Limit{Name: "bytes of memory with remote rights of a container", Key: "rdma.memory", Value: n.Limits.Memory}
	}
	if segment, err = n.broker.memory.New(int64(bytes)); err != nil {
		return 0, nil, err
	}
	n.regions++
	n.memory += int64(bytes)
	return s.add(&object{kind: message.KindRegion, region: &region{int64(bytes), segment}}), segment, nil
}

func (s *Session) removeRegion(r *region) {
	s.node.regions--
	s.node.memory -= r.bytes
	r.segment.Close()
}

// mostWorn is how many places of a process are those of memory before it was changed. What it changes then gets
// another key: the rest is for memory that it registers.
const mostWorn = message.Slots / 2

// Registered is a new memory region.
type Registered struct{ Handle, Key, Slot uint32 }

// Register makes a memory region, or replaces one of which the key remains. A peer that has mapped the one before
// finds the key void in its place, and resolves it again.
func (s *Session) Register(r *message.Register, extents []message.Extent) (Registered, error) {
	if r.Access&^knownRights != 0 || r.Access&(RemoteWrite|RemoteAtomic) != 0 && r.Access&LocalWrite == 0 ||
		r.Addr+r.Length < r.Addr || r.IOVA+r.Length < r.IOVA {
		return Registered{}, syscall.EINVAL
	}
	o := &object{kind: message.KindMR}
	if err := s.use(o, r.PD, message.KindPD); err != nil {
		return Registered{}, err
	}
	var replaced *memoryRegion
	if r.Replaces != 0 {
		old, err := s.find(r.Replaces, message.KindMR)
		if err != nil {
			return Registered{}, err
		}
		replaced = old.mr
	}
	if most := s.node.Limits.MRs; replaced == nil && s.node.mrs >= most {
		return Registered{}, &Limit{Name: "memory regions of a container", Value: int64(most)}
	}
	m := &memoryRegion{pd: o.uses[0], node: s.node, access: r.Access, addr: r.Addr, length: r.Length, iova: r.IOVA}
	var covered uint64
	for _, e := range extents {
		used, err := s.find(e.Region, message.KindRegion)
		if err != nil {
			return Registered{}, err
		}
		size := uint64(used.region.bytes)
		if e.Offset != covered || e.Bytes == 0 || e.Bytes%pageSize != 0 || e.At%pageSize != 0 || e.At > size || e.Bytes > size-e.At {
			return Registered{}, syscall.EINVAL
		}
		covered += e.Bytes
		m.extents = append(m.extents, extent{used.region, e.Offset, e.At, e.Bytes})
		o.uses = append(o.uses, used)
	}
	if len(extents) > 0 && covered != pagesOf(r.Addr, r.Length) {
		return Registered{}, syscall.EINVAL
	}
	slot, is := s.keySlots.Take()
	if replaced != nil && (!is || s.worn == mostWorn) { // its key ends, and leaves its places to others
		s.remove(r.Replaces)
		if replaced = nil; !is {
			slot, is = s.keySlots.Take()
		}
	}
	if !is {
		return Registered{}, &Limit{Name: "memory regions of a process", Value: message.Slots}
	}
	if replaced == nil {
		m.key = s.node.broker.key()
	} else {
		m.key, m.slots, replaced.slots = replaced.key, replaced.slots, nil
		s.process.SetKey(m.slot(), 0)
		s.worn++
		s.remove(r.Replaces)
	}
	m.slots = append(m.slots, slot) // the key never has a place twice: that of a mapping from before would be true again
	s.node.broker.keys[m.key] = m
	o.mr = m
	s.node.mrs++
	s.process.SetKey(slot, m.key)
	return Registered{Handle: s.add(o), Key: m.key, Slot: slot}, nil
}

// pagesOf is how many bytes the pages of a range have.
func pagesOf(addr, length uint64) uint64 {
	return (addr&pageRemainder + length + pageRemainder) &^ pageRemainder
}

func (s *Session) removeMR(m *memoryRegion) {
	s.worn -= max(len(m.slots)-1, 0)
	for _, slot := range m.slots {
		s.process.SetKey(slot, 0)
		s.keySlots.Put(slot)
	}
	s.node.mrs--
	delete(s.node.broker.keys, m.key)
}

// slot is the place of the key.
func (m *memoryRegion) slot() uint32 { return m.slots[len(m.slots)-1] }

// Resolution is the memory behind a key of a peer.
type Resolution struct {
	Addr, Length, IOVA uint64
	Access, Slot       uint32
	Extents            []message.Extent // Region is an index in Segments; none: the owner copies
	Segments           []Segment
	ReadOnly           bool // how the segments may be mapped
	Lent               bool // the segments are the caller's, which closes them
}

// Resolve returns the memory behind a key of the peer of a queue pair. EACCES: the key is
// none of the peer's protection domain, or gives no right that the peer's queue pair gives.
func (s *Session) Resolve(handle, key uint32) (Resolution, error) {
	o, err := s.find(handle, message.KindQP)
	if err != nil {
		return Resolution{}, err
	}
	if o.qp.far != nil {
		return o.qp.far.Resolve(key)
	}
	p := o.qp.peer()
	if p == nil || !p.state.connected() {
		return Resolution{}, syscall.ENOTCONN
	}
	return p.resolve(key)
}

// resolve returns the memory behind a key of the queue pair's protection domain, for its peer.
func (q *queuePair) resolve(key uint32) (Resolution, error) {
	m := q.session.node.broker.keys[key]
	if m == nil || m.pd != q.pd {
		return Resolution{}, syscall.EACCES
	}
	rights := m.access & q.access & remoteRights
	if rights == 0 {
		return Resolution{}, syscall.EACCES
	}
	r := Resolution{Addr: m.addr, Length: m.length, IOVA: m.iova, Access: rights, Slot: m.slot(), ReadOnly: rights&(RemoteWrite|RemoteAtomic) == 0}
	indices := map[*region]uint32{}
	for _, e := range m.extents {
		index, known := indices[e.region]
		if !known {
			index = uint32(len(r.Segments))
			indices[e.region] = index
			r.Segments = append(r.Segments, e.region.segment)
		}
		r.Extents = append(r.Extents, message.Extent{Offset: e.offset, At: e.at, Bytes: e.bytes, Region: index})
	}
	return r, nil
}
