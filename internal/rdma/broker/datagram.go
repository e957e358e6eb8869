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
	Lent    bool   // the segment is the caller's, which closes it
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
	if b.far != nil {
		if err := b.far.Join(q.membership(r.GID)); err != nil {
			return err
		}
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
	q.leave(r.GID)
	q.groups--
	members := slices.DeleteFunc(b.groups[r.GID], func(m *queuePair) bool { return m == q })
	if b.groups[r.GID] = members; len(members) == 0 {
		delete(b.groups, r.GID)
	}
	return nil
}

// membership is that of the queue pair in a multicast group.
func (q *queuePair) membership(gid [16]byte) Membership {
	return Membership{GID: gid, LID: q.session.node.Address.LID, Number: q.number}
}

// leave reports to other machines that the queue pair leaves a multicast group.
func (q *queuePair) leave(gid [16]byte) {
	if far := q.session.node.broker.far; far != nil {
		far.Leave(q.membership(gid))
	}
}

// Members returns the queue pairs in a multicast group: those of this machine first.
func (s *Session) Members(gid [16]byte) []message.Member {
	b := s.node.broker
	var members []message.Member
	for _, q := range b.groups[gid] {
		members = append(members, message.Member{Number: q.number, LID: q.session.node.Address.LID})
	}
	if b.far != nil {
		members = append(members, b.far.Members(gid)...)
	}
	return members[:min(len(members), message.Members)]
}

func (s *Session) datagram(handle uint32) (*queuePair, error) {
	o, err := s.find(handle, message.KindQP)
	if err != nil || o.qp.kind != Datagram {
		return nil, syscall.EINVAL
	}
	return o.qp, nil
}
