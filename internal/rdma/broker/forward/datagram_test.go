package forward

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// TestOutageOfDatagrams: a datagram that is sent while there is no connection asks for one, also where nothing else
// waits for it. So do queue pairs that can be sent to, after the end of the link.
func TestOutageOfDatagrams(t *testing.T) {
	a := newApart(t, 0, 100)
	var wanted []int
	a.far.o.Want = func(rank int) { wanted = append(wanted, rank) }
	l, err := a.far.link(1, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	attach := func(number uint32) ring.Inbox {
		t.Helper()
		inbox, err := a.far.Attach(&message.Attach{LID: 2, Number: number})
		if err != nil {
			t.Fatal(err)
		}
		return inbox.Segment.(*plainSegment).memory
	}
	box := attach(7)
	if len(wanted) != 1 {
		t.Errorf("a link without a connection: wanted %v", wanted)
	}
	if l.again(); len(wanted) != 1 {
		t.Errorf("without a datagram: wanted %v", wanted)
	}
	if !box.Put(make([]byte, ring.DatagramHeader), []byte("text")) {
		t.Fatal("the inbox has no room")
	}
	if l.again(); len(wanted) != 2 {
		t.Errorf("with a datagram: wanted %v", wanted)
	}
	if l.lost(); len(wanted) != 3 || wanted[2] != 1 {
		t.Errorf("after the end of the link: wanted %v", wanted)
	}
}

// receiver makes a datagram queue pair.
func (m *machine) receiver(t *testing.T) (target, ring.Inbox) {
	t.Helper()
	cq, err := m.session.Create(message.KindCQ, 0)
	if err != nil {
		t.Fatal(err)
	}
	q, err := m.session.CreateQP(&message.CreateQP{Type: uint32(broker.Datagram), PD: m.pd, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []message.ModifyQP{{Mask: 1 | 1<<4 | 1<<5 | 1<<6, State: uint32(broker.Init), Port: 1}, {Mask: 1, State: uint32(broker.ReadyToReceive)}} {
		change.Handle = q.Handle
		if _, err := m.session.ModifyQP(&change); err != nil {
			t.Fatal(err)
		}
	}
	return target{uint16(m.far.o.Ranks[0] + 1), q.Number}, q.Inbox.(*plainSegment).memory
}

// TestBlockedReceivers: datagrams wait for a receiver that has receives, a few of them, and hold back none for others. After
// a receiver has let them wait in vain, they wait for a short time, until it takes one.
func TestBlockedReceivers(t *testing.T) {
	_, b := newMachines(t)
	blocked, full := b.receiver(t)
	other, box := b.receiver(t)
	full.TakeAll()
	send := func(to target, count int) {
		t.Helper()
		for range count {
			raw := to.append(nil, frameDatagram, make([]byte, ring.DatagramHeader), []byte("text"))
			if err := b.link.take(frameDatagram, &body{raw: raw[5:]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	waiting := func() int {
		if q := b.link.backlogs[blocked]; q != nil {
			return len(q.late)
		}
		return 0
	}
	// later has what waits have come so long ago.
	later := func(ago time.Duration) {
		if q := b.link.backlogs[blocked]; q != nil {
			for i := range q.late {
				q.late[i].came = time.Now().Add(-ago)
			}
		}
		b.link.collect(nil)
	}
	expect := func(when string, n int) {
		t.Helper()
		if got := waiting(); got != n || b.link.late != n {
			t.Fatalf("%s, %d datagrams wait, and %d of the link", when, got, b.link.late)
		}
	}
	send(blocked, message.InboxSlots+mostUnder+10)
	expect("after more than there is room for", mostUnder)
	for n := range uint64(3) {
		send(other, 1)
		if _, _, is := box.Next(n); !is {
			t.Fatal("a datagram waits for a receiver that is another's")
		}
	}
	later(2 * lateTime)
	expect("after a short time", mostUnder)
	later(2 * longLateTime)
	expect("after a long time", 0)
	send(blocked, 3)
	later(0)
	expect("at first", 3)
	later(2 * lateTime)
	expect("after a short time for a blocked receiver", 0)
	send(blocked, 2)
	full.Release(0)
	later(0)
	expect("after it has taken one", 1)
	later(2 * lateTime)
	expect("after a short time for a receiver that listens again", 1)
	for n := range uint64(2) {
		full.Release(n + 1)
	}
	later(0)
	expect("after it has taken the rest", 0)
	if len(b.link.backlogs) > 0 {
		t.Errorf("left are %v", b.link.backlogs)
	}
}
