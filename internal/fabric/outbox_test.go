package fabric

import (
	"testing"

	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

// fill adds frames to an outbox until it refuses one, and reports how many it took.
func fill(o *outbox) (frames int) {
	for frame := (vhost.Frame{Head: make([]byte, 60000)}); ; frames++ {
		if ok, _ := o.add(frame); !ok {
			return frames
		}
	}
}

// TestWhoIsReadForHasRoom however much others hold: what comes for a guest that is alone is
// not read any more before its queue is full.
func TestWhoIsReadForHasRoom(t *testing.T) {
	s := &store{}
	for held := 0; held < storeChunks; {
		held += fill(newOutbox(s, leastChunks))
	}
	if n := fill(newOutbox(s, leastChunks)); n != leastChunks {
		t.Errorf("one more holds %d chunks, want its least, %d", n, leastChunks)
	}
	o := newOutbox(s, queueLimit/chunkSize)
	if n := fill(o); n != queueLimit/chunkSize || !o.deep.Load() {
		t.Errorf("a guest's holds %d chunks, deep %t", n, o.deep.Load())
	}
}

// TestNoMoreIsTakenThanThereIsRoomFor, so that who sends does not wait.
func TestNoMoreIsTakenThanThereIsRoomFor(t *testing.T) {
	o := newOutbox(&store{}, leastChunks)
	o.add(vhost.Frame{Head: make([]byte, 100)})
	use := func(frames []byte) error { t.Errorf("%d bytes are taken", len(frames)); return nil }
	if some, err := o.next(lengthSize+99, use); some || err != nil || !o.waits() {
		t.Errorf("taken: %t, %v", some, err)
	}
	got := 0
	if some, err := o.next(lengthSize+100, func(frames []byte) error { got = len(frames); return nil }); !some || err != nil || got != lengthSize+100 || o.waits() {
		t.Errorf("taken: %t, %d bytes, %v", some, got, err)
	}
}
