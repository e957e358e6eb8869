package forward

import (
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// TestMembers: a machine learns who is in a multicast group of another one, also from a link that is made later, and
// forgets them with the link.
func TestMembers(t *testing.T) {
	a, b := newMachines(t)
	group, other := [16]byte{0xff, 1}, [16]byte{0xff, 2}
	join := func(number uint32, gid [16]byte) {
		t.Helper()
		if err := a.far.Join(broker.Membership{GID: gid, LID: 1, Number: number}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(gid [16]byte, numbers ...uint32) {
		t.Helper()
		var got []uint32
		for _, m := range b.far.Members(gid) {
			if m.LID != 1 {
				t.Errorf("a member of port %d", m.LID)
			}
			got = append(got, m.Number)
		}
		if slices.Sort(got); !slices.Equal(got, numbers) {
			t.Errorf("members %v, expected %v", got, numbers)
		}
	}
	join(7, group)
	join(8, group)
	join(8, other)
	pass(t, a, b)
	expect(group, 7, 8)
	expect(other, 8)
	a.far.Leave(broker.Membership{GID: group, LID: 1, Number: 8})
	join(9, other)
	a.far.Leave(broker.Membership{GID: other, LID: 1, Number: 9})
	pass(t, a, b)
	expect(group, 7)
	expect(other, 8)
	var wanted []int
	a.far.o.Want = func(rank int) { wanted = append(wanted, rank) }
	for _, m := range []*machine{a, b} {
		m.link.lost()
	}
	if expect(group); !slices.Contains(wanted, 1) {
		t.Errorf("a machine with members wants %v", wanted)
	}
	for rank, m := range []*machine{a, b} {
		var err error
		if m.link, err = m.far.link(5, []int{1 - rank}); err != nil {
			t.Fatal(err)
		}
	}
	pass(t, a, b)
	expect(group, 7)
	expect(other, 8)
}

// TestJoinWantsLinks: the first member of a machine has its broker connect with all others, which may have senders.
func TestJoinWantsLinks(t *testing.T) {
	a := newApart(t, 0, 100)
	a.far.o.Size = 4
	a.far.o.Ranks = []int{0, 2}
	var wanted []int
	a.far.o.Want = func(rank int) { wanted = append(wanted, rank) }
	for n := range uint32(mostMembers) {
		if err := a.far.Join(broker.Membership{GID: [16]byte{0xff}, LID: 1, Number: n}); err != nil {
			t.Fatal(err)
		}
		if n == 0 && !slices.Equal(wanted, []int{1, 3}) {
			t.Errorf("wanted are links with %v", wanted)
		}
	}
	if err := a.far.Join(broker.Membership{GID: [16]byte{0xff}, LID: 1, Number: mostMembers}); err == nil {
		t.Error("a machine has members without end")
	}
}

// TestMembersThatNoBrokerReports end the link, and change nothing.
func TestMembersThatNoBrokerReports(t *testing.T) {
	_, b := newMachines(t)
	good := broker.Membership{GID: [16]byte{0xff, 1}, LID: 1, Number: 7}
	take := func(in uint8, m broker.Membership) error {
		return b.link.take(frameMember, &body{raw: write(nil, in, m.LID, m.Number, m.GID)})
	}
	if err := take(1, good); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"of this machine":   take(1, broker.Membership{GID: good.GID, LID: 2, Number: 8}),
		"of no machine":     take(1, broker.Membership{GID: good.GID, LID: 9, Number: 8}),
		"of no group":       take(1, broker.Membership{GID: [16]byte{0xfe}, LID: 1, Number: 8}),
		"a second time":     take(1, good),
		"that never joined": take(0, broker.Membership{GID: good.GID, LID: 1, Number: 8}),
		"neither":           take(2, broker.Membership{GID: good.GID, LID: 1, Number: 8}),
		"short":             b.link.take(frameMember, &body{raw: make([]byte, 5)}),
		"long":              b.link.take(frameMember, &body{raw: append(write(nil, uint8(1), uint16(1), uint32(8), good.GID), 0)}),
	} {
		if err == nil {
			t.Errorf("a member %s is taken", name)
		}
	}
	if got := b.far.Members(good.GID); !slices.Equal(got, []message.Member{{LID: 1, Number: 7}}) {
		t.Errorf("members %v", got)
	}
	for n := uint32(100); n < 99+mostMembers; n++ {
		if err := take(1, broker.Membership{GID: [16]byte{0xff, 2, byte(n), byte(n >> 8)}, LID: 1, Number: n}); err != nil {
			t.Fatal(err)
		}
	}
	if take(1, broker.Membership{GID: good.GID, LID: 1, Number: 9}) == nil {
		t.Error("a link has members without end")
	}
}
