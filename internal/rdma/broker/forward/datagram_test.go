package forward

import (
	"testing"

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
