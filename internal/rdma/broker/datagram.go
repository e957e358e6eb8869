package broker

import (
	"slices"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// maxGroups is how many multicast groups a queue pair may be in.
const maxGroups = 64

// Inbox is that of a datagram queue pair, for its senders.
type Inbox struct {
	Segment Segment
	Owner   Process
	Process uint32 // number of the owner
	Slot    uint32 // of the queue pair
}

// Attach returns the inbox of a datagram queue pair. ENOENT: none receives there.
func (s *Session) Attach(r *message.Attach) (Inbox, error) {
	b := s.node.broker
	if b.isFar(r.LID, r.Global != 0, r.GID) {
		return b.far.Attach(r)
	}
	q := b.qps[r.Number]
	if q == nil || q.kind != Datagram || !q.state.connected() || q.session.node != b.find(r.LID, r.Global != 0, r.GID) {
		return Inbox{}, syscall.ENOENT
	}
	return Inbox{Segment: q.inbox, Owner: q.session.process, Process: q.session.Number, Slot: q.slot}, nil
}

// Join adds a datagram queue pair to a multicast group.
func (s *Session) Join(r *message.Group) error {
	q, err := s.datagram(r.Handle)
	if err != nil || r.GID[0] != 0xff {
		return syscall.EINVAL
	}
	b := s.node.broker
	members := b.groups[r.GID]
	if slices.Contains(members, q) {
		return nil
	}
	if len(members) == message.Members {
		return &Limit{Name: "queue pairs in a multicast group", Value: message.Members}
	}
	if q.groups == maxGroups {
		return &Limit{Name: "multicast groups of a queue pair", Value: maxGroups}
	}
	q.groups++
	b.groups[r.GID] = append(members, q)
	return nil
}

// Leave removes it.
func (s *Session) Leave(r *message.Group) error {
	q, err := s.datagram(r.Handle)
	if err != nil {
		return err
	}
	b := s.node.broker
	if !slices.Contains(b.groups[r.GID], q) {
		return syscall.EINVAL
	}
	q.groups--
	members := slices.DeleteFunc(b.groups[r.GID], func(m *queuePair) bool { return m == q })
	if b.groups[r.GID] = members; len(members) == 0 {
		delete(b.groups, r.GID)
	}
	return nil
}

// Members returns the queue pairs in a multicast group.
func (s *Session) Members(gid [16]byte) []message.Member {
	var members []message.Member
	for _, q := range s.node.broker.groups[gid] {
		members = append(members, message.Member{Number: q.number, LID: q.session.node.Address.LID})
	}
	return members
}

func (s *Session) datagram(handle uint32) (*queuePair, error) {
	o, err := s.find(handle, message.KindQP)
	if err != nil || o.qp.kind != Datagram {
		return nil, syscall.EINVAL
	}
	return o.qp, nil
}
