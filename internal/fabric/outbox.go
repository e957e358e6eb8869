package fabric

import (
	"encoding/binary"
	"sync"
)

// outbox holds the frames that wait for a way out, one after another with their
// lengths before them. It is bounded: what does not fit is refused.
type outbox struct {
	mu      sync.Mutex
	pending []byte
	spare   []byte
	wake    chan struct{} // holds one
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// add tells whether there was room for a frame.
func (o *outbox) add(frame []byte) bool {
	o.mu.Lock()
	if len(o.pending)+lengthSize+len(frame) > queueLimit {
		o.mu.Unlock()
		return false
	}
	o.pending = binary.BigEndian.AppendUint32(o.pending, uint32(len(frame)))
	o.pending = append(o.pending, frame...)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

// take gives all that waits, while more comes in behind. The caller gives the
// buffer back.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.pending
	o.pending, o.spare = o.spare[:0], nil
	return out
}

func (o *outbox) giveBack(buffer []byte) {
	o.mu.Lock()
	o.spare = buffer
	o.mu.Unlock()
}
