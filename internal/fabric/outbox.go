package fabric

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// store is what all outboxes of a switch hold together. A few may be long; once
// the switch holds much, each has its share only, so that many links cost no more
// memory than few.
type store struct {
	held  atomic.Int64 // bytes
	share int          // of one outbox, in bytes
}

// storeLimit is beyond what outboxes are held to their shares.
const storeLimit = 8 << 20

// newStore is for so many outboxes at most. The least share is two of the
// largest frames.
func newStore(outboxes int) *store {
	return &store{share: min(max(storeLimit/max(outboxes, 1), 2*(maxFrame+lengthSize)), queueLimit)}
}

// outbox holds the frames that wait for a way out, one after another with their
// lengths before them. It is bounded: what does not fit is refused.
type outbox struct {
	in      *store
	mu      sync.Mutex
	pending []byte
	spare   []byte
	taken   int // bytes on their way out
	closed  bool
	wake    chan struct{} // holds one
}

func newOutbox(in *store) *outbox { return &outbox{in: in, wake: make(chan struct{}, 1)} }

// add tells whether there was room for a frame.
func (o *outbox) add(frame []byte) bool {
	n := lengthSize + len(frame)
	limit := queueLimit
	if o.in.held.Load() > storeLimit {
		limit = o.in.share
	}
	o.mu.Lock()
	if o.closed || len(o.pending)+n > limit {
		o.mu.Unlock()
		return false
	}
	o.pending = binary.BigEndian.AppendUint32(o.pending, uint32(len(frame)))
	o.pending = append(o.pending, frame...)
	o.mu.Unlock()
	o.in.held.Add(int64(n))
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

// take gives all that waits, while more comes in behind. The caller gives the
// buffer back before it takes again.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.pending
	o.pending, o.spare, o.taken = o.spare[:0], nil, len(out)
	return out
}

func (o *outbox) giveBack(buffer []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cap(buffer) <= o.in.share { // a longer one is seldom needed again
		o.spare = buffer
	}
	o.in.held.Add(-int64(o.taken))
	o.taken = 0
}

// close lets go of all that waits.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.in.held.Add(-int64(o.taken + len(o.pending)))
	o.pending, o.spare, o.taken = nil, nil, 0
}
