package vhost

import (
	"encoding/binary"
	"fmt"
)

// Headers in the rings are followed by the number of buffers of a frame.
const ringHeader = HeaderSize + 2

// A batch of the guest's frames is taken from the ring at once.
const (
	batchFrames = 64
	batchBytes  = 1 << 20
)

// receive puts a frame into buffers of the guest's. It is not done where there
// are too few, and the guest then tells when it gives more.
func (s *session) receive(frame []byte) (done bool, err error) {
	r := &s.rings[receiving]
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running() {
		return false, ErrStopped
	}
	if frame[0] != 0 && s.acked&featGuestChecksum == 0 || frame[1] != 0 && s.acked&featGuestSegments == 0 {
		return false, fmt.Errorf("the guest's driver takes no unfinished frames (features %#x)", s.acked)
	}
	need := len(frame) - HeaderSize + s.headerSize()
	for {
		seen := r.available()
		room, count := 0, uint16(0)
		for room < need && count < seen-r.next && (count == 0 || s.acked&featMergeBuffers != 0) {
			if seen-r.next > r.num {
				return false, fmt.Errorf("a ring of %d with %d buffers available", r.num, seen-r.next)
			}
			parts, err := r.chain(s.memory, r.head(r.next+count), true)
			if err != nil {
				return false, err
			}
			for _, p := range parts {
				room += len(p.data)
			}
			count++
		}
		if room >= need {
			s.fill(r, frame, count)
			return true, nil
		}
		if count > 0 && (s.acked&featMergeBuffers == 0 || count == r.num) {
			return false, fmt.Errorf("the guest's buffers, %d bytes, are too small for a frame of %d", room, need)
		}
		if !r.await(s.events(), seen) {
			return false, nil
		}
	}
}

// fill copies a frame into the next count buffers, which have room for it.
func (s *session) fill(r *ring, frame []byte, count uint16) {
	var header [ringHeader]byte
	copy(header[:], frame[:HeaderSize])
	binary.LittleEndian.PutUint16(header[HeaderSize:], count)
	rest := [2][]byte{header[:s.headerSize()], frame[HeaderSize:]}
	for i := range count {
		head, written := r.head(r.next), 0
		parts, err := r.chain(s.memory, head, true)
		if err != nil {
			parts = nil // it changed meanwhile: the guest's own fault, and loss
		}
		for _, p := range parts {
			n := 0
			for k := range rest {
				c := copy(p.data[n:], rest[k])
				rest[k], n = rest[k][c:], n+c
			}
			if log := s.logs(); log != nil {
				log.mark(p.guest, n)
			}
			written += n
		}
		r.use(i, head, written)
		r.next++
	}
	r.publish(count, s.events(), s.logs())
}

// send passes on what the guest sends, until the session ends.
func (s *session) send() {
	r := &s.rings[sending]
	b := &batch{data: make([]byte, 0, batchBytes+MaxFrame)}
	for {
		more, err := s.collect(r, b)
		for _, frame := range b.frames {
			s.device.take(frame)
		}
		if err != nil {
			s.fail(fmt.Errorf("take the guest's frames: %w", err))
			return
		}
		if more {
			continue
		}
		select {
		case <-r.kicked:
		case <-s.done:
			return
		}
	}
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
