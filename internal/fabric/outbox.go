package fabric

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

// Chunks are what outboxes are made of.
const (
	// chunkSize holds the largest frame, and many small ones.
	chunkSize = 72 << 10
	// storeChunks is what all outboxes of a switch hold together, 8 MiB; beyond
	// that each has its least only, so that many links cost little more memory
	// than few.
	storeChunks = 8 << 20 / chunkSize
	// leastChunks is one that fills while the other is on its way out.
	leastChunks = 2
	// deepChunks are so many that what comes then waits for long, some half MiB.
	deepChunks = queueLimit / chunkSize / 8
)

// store is where all outboxes of a switch get their chunks, and release them:
// few, used again and again, stay in the processor's caches.
type store struct {
	mu       sync.Mutex
	spare    [][]byte
	held     int // chunks, by outboxes
	outboxes int
}

// get gives an empty chunk to an outbox that has some, of which some are its least, or nil.
func (s *store) get(has, least int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if has >= queueLimit/chunkSize || has >= least && s.held >= storeChunks {
		return nil
	}
	s.held++
	if last := len(s.spare) - 1; last >= 0 {
		c := s.spare[last]
		s.spare = s.spare[:last]
		return c[:0]
	}
	return make([]byte, 0, chunkSize)
}

func (s *store) put(chunks ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= len(chunks)
	s.spare = append(s.spare, chunks...)
	s.trim()
}

// serve counts an outbox more, or less.
func (s *store) serve(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outboxes += more
	s.trim()
}

// trim keeps what all outboxes use when all have much to send, so that none is
// made again for each frame then, and leaves more to the collector.
func (s *store) trim() {
	keep := max(storeChunks, leastChunks*s.outboxes) - s.held
	keep = min(max(keep, 0), len(s.spare))
	clear(s.spare[keep:])
	s.spare = s.spare[:keep]
}

// outbox holds the frames that wait for a way out, one after another with their
// lengths before them. It is bounded: what does not fit is refused.
type outbox struct {
	in      *store
	least   int // chunks, that it gets however much others have
	mu      sync.Mutex
	pending [][]byte // the last one fills
	taken   int      // chunks on their way out
	closed  bool
	deep    atomic.Bool   // deepChunks wait
	shallow sync.Cond     // they do no longer
	wake    chan struct{} // holds one
	atOnce  func() bool   // sends all that waits, or means that not all is gone; nil: it cannot
}

func newOutbox(in *store, least int) *outbox {
	in.serve(1)
	o := &outbox{in: in, least: least, wake: make(chan struct{}, 1)}
	o.shallow.L = &o.mu
	return o
}

// add reports whether there was room for a frame, and whether it is the first that
// waits, whose way out has to be roused.
func (o *outbox) add(frame vhost.Frame) (ok, first bool) {
	size := frame.Len()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false, false
	}
	last := len(o.pending) - 1
	first = last < 0
	if first || len(o.pending[last])+lengthSize+size > chunkSize {
		c := o.in.get(o.taken+len(o.pending), o.least)
		if c == nil {
			return false, false
		}
		o.pending = append(o.pending, c)
		o.sound()
		last++
	}
	c := binary.BigEndian.AppendUint32(o.pending[last], uint32(size))
	o.pending[last] = frame.AppendTo(c)
	return true, first
}

// sign puts a sign behind all that waits, for which there is always room, and reports
// whether nothing did.
func (o *outbox) sign(sign uint32, more ...byte) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	if first = len(o.pending) == 0; first {
		o.pending = append(o.pending, o.in.get(0, o.least))
	}
	last := &o.pending[len(o.pending)-1]
	*last = append(binary.BigEndian.AppendUint32(*last, sign), more...)
	return first
}

// rouse reports to the way out that something waits.
func (o *outbox) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// leave has what waits continue its way: at once, or by who is notified of it.
func (o *outbox) leave() {
	if o.atOnce == nil || !o.atOnce() {
		o.rouse()
	}
}

// waits reports whether something does.
func (o *outbox) waits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending) > 0
}

// idle reports whether all that was added has been used.
func (o *outbox) idle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending) == 0 && o.taken == 0
}

// drain gives what waits to use, many frames at once, until nothing waits any
// more or use fails; more comes in behind.
func (o *outbox) drain(use func(frames []byte) error) error {
	for {
		some, err := o.next(queueLimit, use)
		if err != nil || !some {
			return err
		}
	}
}

// next gives use the chunk that has waited longest, if it has so many bytes at most, and
// reports whether there was one.
func (o *outbox) next(most int, use func(frames []byte) error) (some bool, err error) {
	c := o.take(most)
	if c == nil {
		return false, nil
	}
	err = use(c)
	o.mu.Lock()
	o.taken--
	o.mu.Unlock()
	o.in.put(c)
	return true, err
}

// take gives the chunk that has waited longest, if it has so many bytes at most, or nil.
func (o *outbox) take(most int) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) == 0 || len(o.pending[0]) > most {
		return nil
	}
	c := o.pending[0]
	o.pending = slices.Delete(o.pending, 0, 1)
	o.sound()
	o.taken++
	return c
}

// sound finds out how deep it is. Callers hold mu.
func (o *outbox) sound() {
	deep := len(o.pending) >= deepChunks
	if o.deep.Swap(deep) && !deep {
		o.shallow.Broadcast()
	}
}

// settle waits until not much waits any more.
func (o *outbox) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.deep.Load() {
		o.shallow.Wait()
	}
}

// close releases all that waits.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.in.put(o.pending...)
	o.in.serve(-1)
	o.pending = nil
	o.sound()
}
