package broker

import (
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Session is the connection of one process, and the objects that it has made.
type Session struct {
	Number  uint32 // of the process, at this broker
	node    *Node
	process Process
	objects map[uint32]*object
	handle  uint32 // the last one
	counts  map[uint32]int

	qpSlots, keySlots Slots
	worn              int // places that keys of memory had before it was changed
}

// object is one that a process refers to by its handle.
type object struct {
	kind   uint32
	users  int // objects that use it
	uses   []*object
	qp     *queuePair
	mr     *memoryRegion
	region *region

	channel *eventChannel
	id      *identifier
}

// Open begins the session of a process of this node.
func (n *Node) Open(number uint32, p Process) (*Session, error) {
	if len(n.sessions) >= n.Limits.Processes {
		return nil, &Limit{Name: "processes with the device open", Value: int64(n.Limits.Processes)}
	}
	s := &Session{Number: number, node: n, process: p, objects: map[uint32]*object{}, counts: map[uint32]int{}}
	n.sessions[s] = true
	return s, nil
}

// Close ends the session: its objects are destroyed, and the peers of its queue pairs fail.
func (s *Session) Close() {
	for handle, o := range s.objects {
		if o.id != nil {
			s.remove(handle)
		}
	}
	for _, o := range s.objects {
		if o.qp != nil {
			o.qp.abandon()
			s.removeQP(o.qp)
		}
	}
	for _, o := range s.objects {
		if o.mr != nil {
			s.removeMR(o.mr)
		}
		if o.region != nil {
			s.removeRegion(o.region)
		}
		if o.channel != nil {
			s.removeEventChannel(o.channel)
		}
	}
	s.objects = nil
	delete(s.node.sessions, s)
}

// add makes an object with a handle of its own.
func (s *Session) add(o *object) uint32 {
	for {
		if s.handle++; s.handle != 0 && s.objects[s.handle] == nil {
			break
		}
	}
	s.objects[s.handle] = o
	s.counts[o.kind]++
	for _, used := range o.uses {
		used.users++
	}
	return s.handle
}

// find returns an object of a kind.
func (s *Session) find(handle, kind uint32) (*object, error) {
	if o := s.objects[handle]; o != nil && o.kind == kind {
		return o, nil
	}
	return nil, syscall.EINVAL
}

// limit returns an error where a process has as many objects of a kind as it may.
func (s *Session) limit(kind uint32, name string, most int) error {
	if s.counts[kind] >= most {
		return &Limit{Name: name, Value: int64(most)}
	}
	return nil
}

// Create makes an object that only counts.
func (s *Session) Create(kind, pd uint32) (handle uint32, err error) {
	l := s.node.Limits
	o := &object{kind: kind}
	switch kind {
	case message.KindPD:
		err = s.limit(kind, "protection domains of a process", l.PDs)
	case message.KindCQ, message.KindChannel:
		err = s.limit(kind, "completion queues or channels of a process", l.CQs)
	case message.KindSRQ, message.KindAH:
		most, name := l.SRQs, "shared receive queues of a process"
		if kind == message.KindAH {
			most, name = l.AHs, "address handles of a process"
		}
		if err = s.limit(kind, name, most); err == nil {
			err = s.use(o, pd, message.KindPD)
		}
	default:
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, err
	}
	return s.add(o), nil
}

// use has an object use another.
func (s *Session) use(o *object, handle, kind uint32) error {
	used, err := s.find(handle, kind)
	if err != nil {
		return err
	}
	o.uses = append(o.uses, used)
	return nil
}

// Destroy destroys an object. EBUSY: others use it.
func (s *Session) Destroy(handle uint32) error {
	switch o := s.objects[handle]; {
	case o == nil:
		return syscall.EINVAL
	case o.users > 0:
		return syscall.EBUSY
	}
	s.remove(handle)
	return nil
}

// remove destroys an object that is there, and that no other uses.
func (s *Session) remove(handle uint32) {
	o := s.objects[handle]
	switch {
	case o.qp != nil:
		s.removeQP(o.qp)
	case o.mr != nil:
		s.removeMR(o.mr)
	case o.region != nil:
		s.removeRegion(o.region)
	case o.id != nil:
		s.removeIdentifier(o.id)
	case o.channel != nil:
		s.removeEventChannel(o.channel)
	}
	for _, used := range o.uses {
		used.users--
	}
	delete(s.objects, handle)
	s.counts[o.kind]--
}

// Raise sends an event of the library to its own process.
func (s *Session) Raise(event, handle uint32) error {
	if handle != 0 && s.objects[handle] == nil {
		return syscall.EINVAL
	}
	s.process.Event(event, handle)
	return nil
}
