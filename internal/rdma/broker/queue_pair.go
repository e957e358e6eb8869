package broker

import (
	"slices"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// queuePair is one of a process.
type queuePair struct {
	session *Session
	object  *object
	handle  uint32
	number  uint32
	slot    uint32
	kind    Type
	pd      *object
	state   State
	// access are the rights of its peer, destination and address those of RTR.
	access      uint32
	destination uint32
	lid         uint16
	global      bool
	gid         [16]byte
	pair        *pair   // of which it is a side; nil: it has not connected
	far         FarPair // its connection with another broker; nil: it has none
	inbox       Segment // of a datagram queue pair
	timeout     uint8   // of its requests, as InfiniBand counts it
	retries     uint8
	groups      int // in which it is
}

// QueuePair is what a process learns of its own.
type QueuePair struct {
	Handle, Number, Slot uint32
	Inbox                Segment // nil: it has none
}

// CreateQP makes a queue pair in state Reset.
func (s *Session) CreateQP(r *message.CreateQP) (QueuePair, error) {
	n := s.node
	kind := Type(r.Type)
	switch {
	case kind != Reliable && kind != Unreliable && kind != Datagram:
		return QueuePair{}, syscall.EOPNOTSUPP
	case int64(r.MaxSend) > int64(n.Limits.WR) || int64(r.MaxRecv) > int64(n.Limits.WR):
		return QueuePair{}, syscall.EINVAL
	case n.qps >= n.Limits.QPs:
		return QueuePair{}, &Limit{Name: "queue pairs of a container", Key: "rdma.qps", Value: int64(n.Limits.QPs)}
	}
	o := &object{kind: message.KindQP}
	for _, used := range []struct{ handle, kind uint32 }{{r.PD, message.KindPD}, {r.SendCQ, message.KindCQ}, {r.RecvCQ, message.KindCQ}, {r.SRQ, message.KindSRQ}} {
		if used.kind == message.KindSRQ && used.handle == 0 {
			continue
		}
		if err := s.use(o, used.handle, used.kind); err != nil {
			return QueuePair{}, err
		}
	}
	q := &queuePair{session: s, object: o, kind: kind, pd: o.uses[0], timeout: defaultTimeout, retries: defaultRetries}
	if kind == Datagram {
		var err error
		if q.inbox, err = n.broker.memory.New(message.InboxBytes); err != nil {
			return QueuePair{}, err
		}
	}
	var is bool
	if q.slot, is = s.qpSlots.Take(); !is {
		if q.inbox != nil {
			q.inbox.Close()
		}
		return QueuePair{}, &Limit{Name: "queue pairs of a process", Value: message.Slots}
	}
	o.qp, q.number = q, n.broker.number()
	n.broker.qps[q.number] = q
	n.qps++
	q.handle = s.add(o)
	q.publish()
	return QueuePair{Handle: q.handle, Number: q.number, Slot: q.slot, Inbox: q.inbox}, nil
}

// publish writes the state into the process page.
func (q *queuePair) publish() {
	q.session.process.SetQP(q.slot, q.number, uint32(q.state)+1)
	if q.far != nil {
		q.far.State(q.state)
	}
}

// removeQP destroys a queue pair. Its peer finds it gone.
func (s *Session) removeQP(q *queuePair) {
	b := s.node.broker
	s.process.SetQP(q.slot, 0, 0) // before the peer learns of it, and looks
	q.disconnect()
	s.qpSlots.Put(q.slot)
	for group, members := range b.groups {
		if slices.Contains(members, q) {
			q.leave(group)
		}
		if members = slices.DeleteFunc(members, func(m *queuePair) bool { return m == q }); len(members) == 0 {
			delete(b.groups, group)
		} else {
			b.groups[group] = members
		}
	}
	if q.inbox != nil {
		q.inbox.Close()
	}
	delete(b.qps, q.number)
	b.retire(q.number)
	s.node.qps--
}

// ModifyQP changes a queue pair, and returns its state then.
func (s *Session) ModifyQP(r *message.ModifyQP) (State, error) {
	o, err := s.find(r.Handle, message.KindQP)
	if err != nil {
		return 0, err
	}
	q := o.qp
	if r.Mask&attrCurrent != 0 && (State(r.Current) != q.state || !q.state.connected()) {
		return 0, syscall.EINVAL
	}
	to := q.state
	if r.Mask&attrState != 0 {
		to = State(r.State)
	}
	if !allowed(q.kind, q.state, to, r.Mask) || !sane(r) {
		return 0, syscall.EINVAL
	}
	if r.Mask&attrAccess != 0 {
		q.access = r.Access
	}
	if r.Mask&attrDestination != 0 {
		q.destination = r.Destination
	}
	if r.Mask&attrAddress != 0 {
		q.lid, q.global, q.gid = r.LID, r.Global != 0, r.GID
	}
	if r.Mask&attrTimeout != 0 {
		q.timeout = r.Timeout
	}
	if r.Mask&attrRetries != 0 {
		q.retries = r.Retries
	}
	if q.state = to; to == Reset {
		q.disconnect()
		q.access, q.destination, q.timeout, q.retries = 0, 0, defaultTimeout, defaultRetries
	}
	q.publish()
	if p := q.peer(); p != nil { // its requests wait for this
		p.session.process.Wake()
	}
	return to, nil
}

// What queue pairs have that set no timeout, such as unreliable ones.
const (
	defaultTimeout = 14
	defaultRetries = 7
)

// MaxRDAtomic is how many READs and atomic operations of a queue pair may be under way.
const MaxRDAtomic = 16

// sane reports whether the values are those of a port of ours.
func sane(r *message.ModifyQP) bool {
	has := func(attr uint32) bool { return r.Mask&attr != 0 }
	switch {
	case has(attrPKey) && r.PKeyIndex != 0, has(attrPort) && r.Port != 1,
		has(attrAddress) && r.AHPort > 1, has(attrAddress) && r.Global != 0 && r.SGIDIndex != 0,
		has(attrMTU) && (r.MTU < 1 || r.MTU > 5),
		has(attrTimeout) && r.Timeout > 31, has(attrRetries) && r.Retries > 7, has(attrRNRRetries) && r.RNRRetries > 7,
		has(attrMinRNRTimer) && r.MinRNRTimer > 31,
		has(attrMaxRDAtomic) && r.MaxRDAtomic > MaxRDAtomic, has(attrMaxDestRDAtomic) && r.MaxDestRDAtomic > MaxRDAtomic,
		has(attrDestination) && r.Destination > 0xffffff:
		return false
	}
	return true
}
