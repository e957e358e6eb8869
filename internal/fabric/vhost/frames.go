package vhost

import (
	"encoding/binary"
	"fmt"

	"github.com/bee-hpc/bee/internal/fabric/loop"
)

// Headers in the rings are followed by the number of buffers of a frame.
const ringHeader = HeaderSize + 2

// A batch of the guest's frames is taken from the ring at once.
const (
	batchFrames = 64
	batchBytes  = 1 << 20
)

// receive puts frames into buffers of the guest's, and tells how many. Where not all
// are in, there was no room for the next, and the guest tells when it gives more,
// or else err says what is wrong with it.
func (s *session) receive(frames [][]byte) (done int, err error) {
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
func (s *session) fill(r *ring, frames [][]byte) (seen uint16, done int, err error) {
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
	if used > 0 {
		r.publish(used, s.events(), s.logs())
	}
	return seen, done, err
}

// buffers finds those for a frame, which are the ring's chains then, and tells how
// many; zero: there are too few.
func (s *session) buffers(r *ring, frame []byte, seen uint16) (count uint16, err error) {
	if len(frame) <= HeaderSize || len(frame) > MaxFrame {
		return 0, fmt.Errorf("a frame of %d bytes cannot be", len(frame)-HeaderSize)
	}
	if frame[0] != 0 && s.acked&featGuestChecksum == 0 || frame[1] != 0 && s.acked&featGuestSegments == 0 {
		return 0, fmt.Errorf("the guest's driver takes no unfinished frames (features %#x)", s.acked)
	}
	need, merges := len(frame)-HeaderSize+s.headerSize(), s.acked&featMergeBuffers != 0
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
func (s *session) scatter(r *ring, frame []byte, offset uint16) {
	var header [ringHeader]byte
	copy(header[:], frame[:HeaderSize])
	binary.LittleEndian.PutUint16(header[HeaderSize:], uint16(len(r.chains)))
	rest := [2][]byte{header[:s.headerSize()], frame[HeaderSize:]}
	for i, c := range r.chains {
		written := 0
		for _, p := range r.buffers[c.from:c.to] {
			n := 0
			for k := range rest {
				moved := copy(p.data[n:], rest[k])
				rest[k], n = rest[k][moved:], n+moved
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
	more, err := s.collect(r, &s.sent)
	if len(s.sent.frames) > 0 {
		s.device.take(s.sent.frames)
	}
	if err != nil {
		s.fail(fmt.Errorf("take the guest's frames: %w", err))
	}
	return !more || err != nil
}

// batch is some frames with their headers, all in one piece of memory.
type batch struct {
	data   []byte
	frames [][]byte
}

// collect takes a batch from the ring, and says whether there may be more.
func (s *session) collect(r *ring, b *batch) (more bool, err error) {
	b.data, b.frames = b.data[:0], b.frames[:0]
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running() {
		return false, nil
	}
	seen := r.available()
	have := seen - r.next
	if have > r.num {
		return false, fmt.Errorf("a ring of %d with %d buffers available", r.num, have)
	}
	count := uint16(0)
	for count < have && len(b.frames) < batchFrames && len(b.data) < batchBytes {
		head := r.head(r.next)
		r.forget()
		parts, err := r.chain(s.memory, head, false)
		if err != nil {
			return false, err
		}
		begin, skip := len(b.data), s.headerSize()-HeaderSize
		for _, p := range parts {
			if len(b.data)-begin+len(p.data) > MaxFrame+skip {
				b.data = b.data[:begin] // nothing that long was agreed on
				break
			}
			b.data = append(b.data, p.data...)
		}
		if frame := b.data[begin:]; len(frame) > HeaderSize+skip {
			copy(frame[skip:], frame[:HeaderSize]) // the number of buffers says nothing here
			b.frames = append(b.frames, frame[skip:])
		}
		r.use(count, head, 0)
		count++
		r.next++
	}
	if count > 0 {
		r.publish(count, s.events(), s.logs())
		return true, nil
	}
	return r.await(s.events(), seen), nil
}
