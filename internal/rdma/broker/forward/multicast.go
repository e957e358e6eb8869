package forward

import (
	"slices"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// mostMembers is how many members of multicast groups a machine may have.
const mostMembers = 4096

// groups are the multicast groups of a link.
type groups struct {
	// sent are the members of this machine that the other side knows, as of change `reported`.
	sent     map[broker.Membership]bool
	reported uint64
	// members are those of the other side, by group; count is how many.
	members map[[16]byte][]message.Member
	count   int
}

// Join implements broker.Far. The brokers of all other machines learn of it, as each may have senders.
func (f *Far) Join(m broker.Membership) error {
	if len(f.joined) == mostMembers {
		return &broker.Limit{Name: "members of multicast groups of a machine", Value: mostMembers}
	}
	f.joined[m] = true
	f.changed()
	for rank := range f.o.Size {
		if !f.ended && !f.Linked(rank) && !slices.Contains(f.o.Ranks, rank) {
			f.o.Want(rank)
		}
	}
	return nil
}

// Leave implements broker.Far.
func (f *Far) Leave(m broker.Membership) {
	delete(f.joined, m)
	f.changed()
}

// changed has each link report members that have joined or left.
func (f *Far) changed() {
	f.joins++
	for _, l := range f.links {
		l.kick()
	}
}

// Members implements broker.Far.
func (f *Far) Members(gid [16]byte) (members []message.Member) {
	for rank, l := range f.links {
		if rank == l.ranks[0] {
			members = append(members, l.groups.members[gid]...)
		}
	}
	return members
}

// memberships appends what has changed since the last report to the other side.
func (l *link) memberships(out []byte) []byte {
	g, f := &l.groups, l.far
	if g.reported == f.joins {
		return out
	}
	for m := range g.sent {
		if !f.joined[m] {
			out = appendMember(out, 0, m)
			delete(g.sent, m)
		}
	}
	for m := range f.joined {
		if !g.sent[m] {
			if g.sent == nil {
				g.sent = map[broker.Membership]bool{}
			}
			out = appendMember(out, 1, m)
			g.sent[m] = true
		}
	}
	g.reported = f.joins
	return out
}

func appendMember(out []byte, in uint8, m broker.Membership) []byte {
	out, at := begin(out, frameMember)
	return finish(write(out, in, m.LID, m.Number, m.GID), at)
}

// takeMember notes that a queue pair of the other side has joined a group, or left it.
func (l *link) takeMember(b *body) error {
	in, m := b.u8(), message.Member{LID: b.u16(), Number: b.u32()}
	gid := [16]byte(b.take(16))
	if b.failed || len(b.raw) > 0 || in > 1 || gid[0] != 0xff || !l.has(m.LID) {
		return errFrame
	}
	g := &l.groups
	at := slices.Index(g.members[gid], m)
	if in == 0 == (at < 0) || in == 1 && g.count == mostMembers {
		return errFrame // a side reports changes alone
	}
	if in == 0 {
		g.count--
		if g.members[gid] = slices.Delete(g.members[gid], at, at+1); len(g.members[gid]) == 0 {
			delete(g.members, gid)
		}
		return nil
	}
	if g.members == nil {
		g.members = map[[16]byte][]message.Member{}
	}
	g.count++
	g.members[gid] = append(g.members[gid], m)
	return nil
}

// has reports whether a port of the other machine has a LID.
func (l *link) has(lid uint16) bool {
	return slices.ContainsFunc(l.ranks, func(rank int) bool { return l.far.o.Address(rank).LID == lid })
}
