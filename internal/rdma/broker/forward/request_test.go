package forward

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// TestQueuePairThatHasFailed: requests of the other side are not carried out on a queue pair that its program has
// moved to the error state, as the program uses the memory for something else by then.
func TestQueuePairThatHasFailed(t *testing.T) {
	a, b := newMachines(t)
	region, segment, err := b.session.CreateRegion(4096)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := b.session.Register(&message.Register{PD: b.pd, Access: broker.RemoteWrite | broker.RemoteRead | broker.RemoteAtomic | 1, Length: 4096}, []message.Extent{{Bytes: 4096, Region: region}})
	if err != nil {
		t.Fatal(err)
	}
	program := ring.Writer{Ring: a.pair.tx.Ring}
	put := func(e message.Entry, text string) {
		t.Helper()
		e.Bytes = uint32(len(text))
		if e.Total == 0 {
			e.Total = uint64(e.Bytes)
		}
		if err := program.Put(e, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	memory := segment.(*plainSegment).memory
	put(message.Entry{Opcode: message.EntryWrite, Key: mr.Key, Request: 1}, "data")
	put(message.Entry{Opcode: message.EntryRead, Key: mr.Key, Request: 2, Total: 4}, "")
	if pass(t, a, b); string(memory[:4]) != "data" || len(b.pair.answers) != 1 {
		t.Fatalf("before that, memory has %q, and there are %d answers", memory[:4], len(b.pair.answers))
	}
	if _, err := b.session.ModifyQP(&message.ModifyQP{Handle: b.queuePair, Mask: 1, State: uint32(broker.Failed)}); err != nil {
		t.Fatal(err)
	}
	clear(memory)
	put(message.Entry{Opcode: message.EntryWrite, Key: mr.Key, Request: 3}, "data")
	put(message.Entry{Opcode: message.EntryAtomicAdd, Key: mr.Key, Request: 4, Total: 8, Operand: [2]uint64{1}}, "")
	put(message.Entry{Opcode: message.EntrySend, Request: 5}, "text")
	pass(t, a, b)
	pass(t, b, a)
	if !bytes.Equal(memory, make([]byte, len(memory))) {
		t.Errorf("memory has %q", memory[:8])
	}
	if (&ring.Reader{Ring: b.pair.rx.Ring}).Waiting() {
		t.Error("a message arrived")
	}
	if (&ring.Reader{Ring: a.pair.rx.Ring}).Waiting() {
		t.Error("the READ is answered, with memory that is the program's own again")
	}
	if done, _ := a.pair.tx.Ring.Done(); done != 1 {
		t.Errorf("request %d is over", done)
	}
	if state := a.far.o.Peer.(*plainProcess).states[a.pair.slot]; state != uint32(broker.Failed)+1 {
		t.Errorf("the other side has it in state %d", state)
	}
}

// TestFloodOfFaults: what the other side, or a program, does wrong again and again takes no memory while nothing can
// be sent.
func TestFloodOfFaults(t *testing.T) {
	a, _ := newMachines(t)
	out, at := about(nil, frameEntry, name{own: a.pair.name.other, other: a.pair.name.own})
	short := finish(append(out, 1), at)
	for range 10_000 {
		hear(t, a, short)
	}
	if n := len(a.pair.last); !a.pair.broken || n == 0 || n > 100 {
		t.Errorf("faults of the other side: %d bytes wait", n)
	}
	a, b := newMachines(t)
	for range 1000 {
		if err := a.session.FailQP(&message.FailQP{Handle: a.queuePair, Event: -1, Peer: 1, PeerEvent: broker.EventQPAccess}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.session.ModifyQP(&message.ModifyQP{Handle: a.queuePair, Mask: 1, State: uint32(broker.Failed)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.pair.last); n == 0 || n > 100 {
		t.Errorf("faults of a program: %d bytes wait", n)
	}
	if pass(t, a, b); len(b.process.events) != 1 {
		t.Errorf("events %v", b.process.events)
	}
	a.link.out = make([]byte, mostWaiting+1)
	for _, k := range []kind{framePing, frameReported} {
		if err := a.link.hear(k, make([]byte, 8)); !errors.Is(err, errFrame) {
			t.Errorf("frame %d while too much waits: %v", k, err)
		}
	}
}
