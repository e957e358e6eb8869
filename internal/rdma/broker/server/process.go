package server

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// process is one that has opened the device, as the broker reaches it.
type process struct {
	session *broker.Session
	page    mapping          // of the process
	reader  int              // the page, for reading alone
	table   mapping          // of the broker, sealed against all others
	events  int              // the broker's end of the socket of events
	wake    int              // the end of the socket that wakes it, on which it and all its peers send, too
	later   func(f func())   // calls f when a request has waited long enough for a listener
	passed  []int            // descriptors of a reply that are the process's alone, and close after it
	lent    []broker.Segment // of a reply, from another broker: they close after it
}

// mapping is a segment that the broker has mapped.
type mapping struct {
	*segment
	memory []byte
}

func (m memory) mapping(bytes, seals int) (mapping, error) {
	s, err := m.segment(int64(bytes), seals)
	if err != nil {
		return mapping{}, err
	}
	memory, err := s.mapped()
	if err != nil {
		s.Close()
		return mapping{}, err
	}
	return mapping{s, memory}, nil
}

func (m mapping) close() {
	if m.segment != nil {
		m.Close()
	}
}

// word is one of the memory.
func (m mapping) word(at int) *uint32 { return (*uint32)(unsafe.Pointer(&m.memory[at])) }

// whole is what is mapped, for reading and writing.
func (m mapping) whole() handed { return whole(m.segment) }

// newProcess makes what a process shares with the broker, complete and sealed: a call of the
// broker about memory that a program has may wait for calls of that program. The caller
// closes what is the process's alone: its ends of the sockets of events and of wake-ups.
func newProcess(m memory) (p *process, own []int, err error) {
	p = &process{}
	fail := func(err error) (*process, []int, error) {
		p.close()
		for _, fd := range own {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, nil, err
	}
	for _, s := range []struct {
		end  *int
		kind int
	}{{&p.events, unix.SOCK_SEQPACKET}, {&p.wake, unix.SOCK_STREAM}} {
		ends, err := unix.Socketpair(unix.AF_UNIX, s.kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fail(err)
		}
		*s.end = ends[0]
		own = append(own, ends[1])
	}
	if p.page, err = m.mapping(message.PageBytes, unix.F_SEAL_SEAL); err != nil {
		return fail(err)
	}
	if p.reader, err = p.page.readOnly(); err != nil {
		return fail(err)
	}
	if p.table, err = m.mapping(message.TableBytes, 0); err != nil {
		return fail(err)
	}
	if err := p.table.seal(unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL); err != nil {
		return fail(err)
	}
	return p, own, nil
}

func (p *process) close() {
	for _, fd := range []int{p.events, p.wake, p.reader} {
		if fd > 0 {
			unix.Close(fd)
		}
	}
	p.page.close()
	p.table.close()
}

// SetQP publishes a queue pair: first its number, then its state.
func (p *process) SetQP(slot, number, state uint32) {
	at := message.TableQPs + 8*int(slot)
	atomic.StoreUint32(p.table.word(at+4), number)
	atomic.StoreUint32(p.table.word(at), state)
}

// SetKey publishes the key of a memory region.
func (p *process) SetKey(slot, key uint32) {
	atomic.StoreUint32(p.table.word(message.TableKeys+4*int(slot)), key)
}

// Wake wakes the process. Programs share the descriptor and may change its flags, so the
// call itself says that it does not wait.
func (p *process) Wake() {
	err := unix.Sendto(p.wake, []byte{0}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	_ = err // it is full and so the process is woken, or the process ends
}

// asleep reports whether the process waits to be woken.
func (p *process) asleep() bool { return atomic.LoadUint32(p.page.word(message.PageSleeping)) != 0 }

// Event sends an event. A process that reads none loses those for which there is no room.
func (p *process) Event(event, handle uint32) {
	raw := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, event), handle)
	err := unix.Sendto(p.events, raw, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	_ = err
}

// counters reads those of the library.
func (p *process) counters() (counts [message.Counters]uint64) {
	for i := range counts {
		counts[i] = atomic.LoadUint64((*uint64)(unsafe.Pointer(&p.page.memory[message.PageCounters+8*i])))
	}
	return counts
}

// forPeers returns what peers get.
func (p *process) forPeers() []handed {
	return []handed{{fd: p.wake}, {p.reader, p.page.at}, p.table.whole()}
}

// forPeersOf is what peers of a process get.
func forPeersOf(p broker.Process) []handed {
	switch p := p.(type) {
	case *peer:
		return p.forPeers()
	case *stranger:
		return alone(p.descriptors...)
	}
	return p.(*process).forPeers()
}

// handle carries a request out. It returns descriptors, which stay open for the reply, and
// the parts of the reply.
func (p *process) handle(r message.Request) (descriptors []handed, parts []any, err error) {
	s := p.session
	switch m := r.Body.(type) {
	case *message.Create:
		handle, err := s.Create(m.Kind, m.PD)
		return nil, []any{message.Created{Handle: handle}}, err
	case *message.Destroy:
		return nil, nil, s.Destroy(m.Handle)
	case *message.CreateQP:
		q, err := s.CreateQP(m)
		if err == nil && q.Inbox != nil {
			descriptors = []handed{whole(q.Inbox)}
		}
		return descriptors, []any{message.CreateQPReply{Handle: q.Handle, Number: q.Number, Slot: q.Slot}}, err
	case *message.ModifyQP:
		state, err := s.ModifyQP(m)
		return nil, []any{message.ModifyQPReply{State: uint32(state)}}, err
	case *message.Connect:
		return p.connect(m)
	case *message.FailQP:
		return nil, nil, s.FailQP(m)
	case *message.CreateRegion:
		handle, memory, err := s.CreateRegion(m.Bytes)
		if err != nil {
			return nil, nil, err
		}
		return []handed{whole(memory)}, []any{message.Created{Handle: handle}}, nil
	case *message.Register:
		mr, err := s.Register(m, r.Extents)
		return nil, []any{message.RegisterReply{Handle: mr.Handle, Key: mr.Key, Slot: mr.Slot}}, err
	case *message.Resolve:
		return p.resolve(m)
	case *message.Attach:
		return p.attach(m)
	case *message.Raise:
		return nil, nil, s.Raise(m.Event, m.Handle)
	case *message.CMCall:
		return p.call(r.Op, m)
	case *message.CMBind:
		local, err := s.Connections().Bind(m)
		return nil, []any{message.CMBindReply{Local: local}}, err
	case *message.CMResolve:
		reply, err := s.Connections().ResolveAddress(m)
		return nil, []any{reply}, err
	case *message.CMAnswer:
		return nil, nil, p.answer(r.Op, m)
	case *message.Group:
		switch r.Op {
		case message.OpJoin:
			return nil, nil, s.Join(m)
		case message.OpLeave:
			return nil, nil, s.Leave(m)
		}
		members := s.Members(m.GID)
		return nil, []any{message.MembersReply{Count: uint32(len(members))}, members}, nil
	}
	return nil, nil, syscall.EINVAL // a second greeting
}

func (p *process) connect(m *message.Connect) ([]handed, []any, error) {
	c, err := p.session.Connect(m.Handle)
	if err != nil {
		return nil, nil, err
	}
	descriptors := []handed{whole(c.Rings)}
	reply := message.ConnectReply{TX: c.TX, RX: c.RX}
	if c.Far {
		reply.Far = 1
	}
	if c.Peer != nil {
		descriptors = append(descriptors, forPeersOf(c.Peer)...)
		reply.Present, reply.Process, reply.Slot = 1, c.PeerNumber, c.PeerSlot
	}
	return descriptors, []any{reply}, nil
}

func (p *process) attach(m *message.Attach) ([]handed, []any, error) {
	i, err := p.session.Attach(m)
	if err != nil {
		return nil, nil, err
	}
	if i.Lent {
		p.lent = append(p.lent, i.Segment)
	}
	return append([]handed{whole(i.Segment)}, forPeersOf(i.Owner)...), []any{message.AttachReply{Process: i.Process, Slot: i.Slot}}, nil
}

func (p *process) resolve(m *message.Resolve) ([]handed, []any, error) {
	r, err := p.session.Resolve(m.Handle, m.Key)
	if err != nil {
		return nil, nil, err
	}
	if r.Lent {
		p.lent = append(p.lent, r.Segments...)
	}
	var descriptors []handed
	for _, memory := range r.Segments {
		one := whole(memory)
		if r.ReadOnly {
			if one.fd, err = memory.(*segment).shared(); err != nil {
				return nil, nil, err
			}
		}
		descriptors = append(descriptors, one)
	}
	reply := message.ResolveReply{Addr: r.Addr, Length: r.Length, IOVA: r.IOVA, Access: r.Access, Slot: r.Slot, Count: uint32(len(r.Extents))}
	return descriptors, []any{reply, r.Extents}, nil
}
