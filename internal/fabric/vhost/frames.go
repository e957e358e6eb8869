package vhost

import (
	"encoding/binary"
	"fmt"

	"github.com/bee-hpc/bee/internal/fabric/loop"
)

// ringHeader is the size of a header in a ring, which the number of buffers of a frame follows.
const ringHeader = HeaderSize + 2

// A batch of the guest's frames is taken from the ring at once.
const (
	batchFrames = 64
	batchBytes  = 256 << 10
)

// Frame is a frame behind its header, in the parts in which it lies. The first one holds
// the header and what the frame says of itself, addresses and ports.
type Frame struct {
	Head []byte
	Rest [][]byte
}

// headLength is that of what is copied of a long frame at least: the headers of all that
// is distinguished by them.
const (
	headLength = HeaderSize + 14 + 4 + 60 + 60
	longFrame  = 4096
)

// Len is that of all parts, in bytes.
func (f Frame) Len() int {
	n := len(f.Head)
	for _, p := range f.Rest {
		n += len(p)
	}
	return n
}

// AppendTo adds all parts to some bytes.
func (f Frame) AppendTo(b []byte) []byte {
	b = append(b, f.Head...)
	for _, p := range f.Rest {
		b = append(b, p...)
	}
	return b
}

// receive puts frames into buffers of the guest's, and reports how many. Where not all
// are in, there was no room for the next, and the guest reports when it gives more,
// or else err says what is wrong with it.
func (s *session) receive(frames []Frame) (done int, err error) {
	r := &s.rings[receiving]
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running() {
		return 0, errStopped
	}
	for {
		seen, n, err := s.fill(r, frames[done:])
		if done += n; err != nil || done == len(frames) || !r.await(s.events(), seen) {
			return done, err
		}
	}
}

// fill puts frames into the buffers that are there, up to the index seen, and
// hands them to the guest all at once.
func (s *session) fill(r *ring, frames []Frame) (seen uint16, done int, err error) {
	seen = r.available()
	if have := seen - r.next; have > r.num {
		return seen, 0, fmt.Errorf("a ring of %d with %d buffers available", r.num, have)
	}
	used := uint16(0)
	for _, frame := range frames {
		var n uint16
		if n, err = s.buffers(r, frame, seen); n == 0 || err != nil {
			break
		}
		s.scatter(r, frame, used)
		r.next += n
		used += n
		done++
	}
	r.publish(used, s.events(), s.logs())
	return seen, done, err
}

// buffers finds those for a frame, which are the ring's chains then, and reports how
// many; zero: there are too few.
func (s *session) buffers(r *ring, frame Frame, seen uint16) (count uint16, err error) {
	size := frame.Len()
	if len(frame.Head) < HeaderSize || size <= HeaderSize || size > MaxFrame {
		return 0, fmt.Errorf("a frame of %d bytes cannot be", size-HeaderSize)
	}
	if frame.Head[0] != 0 && s.acked&featGuestChecksum == 0 || frame.Head[1] != 0 && s.acked&featGuestSegments == 0 {
		return 0, fmt.Errorf("the guest's driver takes no unfinished frames (features %#x)", s.acked)
	}
	need, merges := size-HeaderSize+s.headerSize(), s.acked&featMergeBuffers != 0
	r.forget()
	for room := 0; room < need; count++ {
		if count > 0 && !merges || count == r.num {
			return 0, fmt.Errorf("the guest's buffers, %d bytes, are too small for a frame of %d", room, need)
		}
		if count == seen-r.next {
			return 0, nil
		}
		parts, err := r.chain(s.memory, r.head(r.next+count), true)
		if err != nil {
			return 0, err
		}
		for _, p := range parts {
			room += len(p.data)
		}
	}
	return count, nil
}

// scatter copies a frame into the ring's chains, and notes them as used, that many
// places after what is published.
func (s *session) scatter(r *ring, frame Frame, offset uint16) {
	copy(r.header[:], frame.Head[:HeaderSize])
	binary.LittleEndian.PutUint16(r.header[HeaderSize:], uint16(len(r.chains)))
	from := append(append(r.parts[:0], r.header[:s.headerSize()], frame.Head[HeaderSize:]), frame.Rest...)
	r.parts = from
	for i, c := range r.chains {
		written := 0
		for _, p := range r.buffers[c.from:c.to] {
			n := 0
			for len(from) > 0 && n < len(p.data) {
				moved := copy(p.data[n:], from[0])
				n += moved
				if from[0] = from[0][moved:]; len(from[0]) == 0 {
					from = from[1:]
				}
			}
			if log := s.logs(); log != nil {
				log.mark(p.guest, n)
			}
			written += n
		}
		r.use(offset+uint16(i), c.head, written)
	}
}

// hasRoom wakes who waits for the guest to give buffers.
func (s *session) hasRoom(turn loop.Turn) (dry bool) {
	if turn == loop.Heard {
		s.rings[receiving].heard()
	}
	select {
	case s.room <- struct{}{}:
	default:
	}
	return true
}

// send passes on a batch of what the guest sends, if there is one.
func (s *session) send(turn loop.Turn) (dry bool) {
	r := &s.rings[sending]
	if turn == loop.Heard {
		r.heard()
	}
	more, err := s.pass(r, &s.sent)
	if err != nil {
		s.fail(fmt.Errorf("take the guest's frames: %w", err))
	}
	return !more || err != nil
}

// batch is some frames: their heads, and short ones as a whole, are in one piece of
// memory, and the rest of long ones is where the guest has it.
type batch struct {
	data   []byte
	rest   [][]byte
	frames []Frame
	bytes  int
}

// pass takes a batch from the ring, has it dealt with, and gives the guest its buffers
// back. It reports whether there may be more.
func (s *session) pass(r *ring, b *batch) (more bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running() {
		return false, nil
	}
	seen := r.available()
	count, err := s.collect(r, b, seen)
	if err != nil {
		count = 0 // it gets nothing back any more
	}
	lent := len(b.rest) > 0
	if !lent { // all are copied, and the guest may fill its buffers meanwhile
		r.publish(count, s.events(), s.logs())
	}
	if len(b.frames) > 0 {
		s.device.take(b.frames)
	}
	if lent {
		r.publish(count, s.events(), s.logs())
	}
	if err != nil || count > 0 {
		return err == nil, err
	}
	return r.await(s.events(), seen), nil
}

// collect finds the frames of a batch, up to the index seen, and reports how many buffers
// these are.
func (s *session) collect(r *ring, b *batch, seen uint16) (count uint16, err error) {
	b.data, b.rest, b.frames, b.bytes = b.data[:0], b.rest[:0], b.frames[:0], 0
	have := seen - r.next
	if have > r.num {
		return 0, fmt.Errorf("a ring of %d with %d buffers available", r.num, have)
	}
	for count < have && len(b.frames) < batchFrames && b.bytes < batchBytes {
		head := r.head(r.next)
		r.forget()
		parts, err := r.chain(s.memory, head, false)
		if err != nil {
			return count, err
		}
		b.add(parts, s.headerSize()-HeaderSize)
		r.use(count, head, 0)
		count++
		r.next++
	}
	return count, nil
}

// add adds a frame that is in some parts, behind a header that is some bytes longer
// than here. What cannot be one is left out.
func (b *batch) add(parts []segment, longer int) {
	size := 0
	for _, p := range parts {
		size += len(p.data)
	}
	if size <= HeaderSize+longer || size > MaxFrame+longer { // nothing that long was agreed on
		return
	}
	copied := size
	if size > longFrame {
		copied = headLength + longer
	}
	begin := len(b.data)
	for len(b.data)-begin < copied {
		p := parts[0].data
		n := min(len(p), copied-(len(b.data)-begin))
		b.data = append(b.data, p[:n]...)
		if n < len(p) {
			parts[0].data = p[n:]
			break
		}
		parts = parts[1:]
	}
	f := Frame{Head: b.data[begin+longer:]}
	copy(f.Head, b.data[begin:][:HeaderSize]) // the number of buffers says nothing here
	if copied < size {
		from := len(b.rest)
		for _, p := range parts {
			b.rest = append(b.rest, p.data)
		}
		f.Rest = b.rest[from:]
	}
	b.frames, b.bytes = append(b.frames, f), b.bytes+size
}
