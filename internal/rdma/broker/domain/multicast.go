package domain

import (
	"slices"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// mostMembers is how many members of multicast groups a broker may have.
const mostMembers = 4096

// Join implements broker.Far. All other brokers learn of it, as each may have senders.
func (f *Far) Join(m broker.Membership) error {
	if len(f.joined) == mostMembers {
		return &broker.Limit{Name: "members of multicast groups of a run", Value: mostMembers}
	}
	f.joined[m] = true
	f.report(m, 1)
	return nil
}

// Leave implements broker.Far.
func (f *Far) Leave(m broker.Membership) {
	delete(f.joined, m)
	f.report(m, 0)
}

func (f *Far) report(m broker.Membership, in uint8) {
	for _, l := range f.links {
		l.send(kindMember, nil, member{In: in, LID: m.LID, Number: m.Number, GID: m.GID})
	}
}

// Members implements broker.Far.
func (f *Far) Members(gid [16]byte) (members []message.Member) {
	for _, l := range f.links {
		members = append(members, l.members[gid]...)
	}
	return members
}

// takeMember notes that a queue pair of the other side has joined a group, or left it.
func (l *link) takeMember(raw []byte) error {
	var m member
	if whole(raw, &m) != nil || m.In > 1 || m.GID[0] != 0xff {
		return errMessage
	}
	if _, is := l.port(m.LID); !is {
		return errMessage
	}
	who := message.Member{LID: m.LID, Number: m.Number}
	at := slices.Index(l.members[m.GID], who)
	if m.In == 0 == (at < 0) || m.In == 1 && l.count == mostMembers {
		return errMessage // a side reports changes alone
	}
	if m.In == 1 {
		l.count++
		l.members[m.GID] = append(l.members[m.GID], who)
		return nil
	}
	l.count--
	if l.members[m.GID] = slices.Delete(l.members[m.GID], at, at+1); len(l.members[m.GID]) == 0 {
		delete(l.members, m.GID)
	}
	return nil
}
