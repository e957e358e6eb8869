package broker

import (
	"math/rand/v2"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// TestMemoryIsChangedForEver: memory can be changed, and other memory registered, however often that was before. A key
// has never been in its place before, as peers that have mapped the memory would believe it again.
func TestMemoryIsChangedForEver(t *testing.T) {
	_, _, nodes := testBroker(rand.New(rand.NewPCG(1, 0)))
	s, err := nodes[0].Open(1, newFakeProcess())
	if err != nil {
		t.Fatal(err)
	}
	pd, err := s.Create(message.KindPD, 0)
	if err != nil {
		t.Fatal(err)
	}
	register := func(replaces uint32) Registered {
		t.Helper()
		got, err := s.Register(&message.Register{PD: pd, Access: RemoteRead, Length: 4096, Replaces: replaces}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	type place struct{ key, slot uint32 }
	were, keys := map[place]bool{}, map[uint32]bool{}
	mr := register(0)
	for range 2 * message.Slots {
		p := place{mr.Key, mr.Slot}
		if were[p] {
			t.Fatalf("key %d has place %d again", mr.Key, mr.Slot)
		}
		were[p], keys[mr.Key] = true, true
		mr = register(mr.Handle)
	}
	if len(keys) > 5 {
		t.Errorf("the memory has had %d keys", len(keys))
	}
	for range mostWorn {
		mr = register(mr.Handle)
	}
	other := register(0)
	if register(other.Handle).Slot == mr.Slot {
		t.Error("two have one place")
	}
	s.Close()
	if u := nodes[0].Usage(); u != (Usage{}) || s.worn != 0 {
		t.Errorf("%+v and %d places are left", u, s.worn)
	}
}
