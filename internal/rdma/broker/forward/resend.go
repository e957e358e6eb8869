package forward

import (
	"encoding/binary"
	"errors"
	"slices"
)

// mostUntaken is how many bytes of frames may be on their way to the other side, or lost with a connection.
const mostUntaken = 8 << 20

// sent keeps frames until the other side has taken them, as connections may break before that.
type sent struct {
	frames  uint64 // that were sent, ever
	taken   uint64 // of them, by the other side
	batches []batch
	bytes   int
	scratch []byte   // for the next batch
	free    [][]byte // memory of former batches
}

// batch is what one write has sent.
type batch struct {
	frames []byte
	memory []byte // of which frames are a part; nil: they have their own
	last   uint64 // the number of the last one
}

// mostFree is how many buffers are kept for further batches.
const mostFree = 2

// buffer returns memory for the next batch, to append to. The one before has been written by then.
func (s *sent) buffer() []byte {
	if n := len(s.free); s.scratch == nil && n > 0 {
		s.scratch = s.free[n-1]
		s.free = s.free[:n-1]
	}
	return s.scratch[:0]
}

// keep keeps the first bytes of the memory of buffer, which are whole frames. A few would hold a large
// buffer for as long as the other side likes, so these are copied.
func (s *sent) keep(memory []byte, bytes int) {
	if s.scratch = memory; bytes == 0 {
		return
	}
	b := batch{frames: memory[:bytes:bytes], memory: memory}
	if bytes < cap(memory)/2 {
		b = batch{frames: slices.Clone(b.frames)}
	} else {
		s.scratch = nil
	}
	s.frames += count(b.frames)
	s.bytes += bytes
	b.last = s.frames
	s.batches = append(s.batches, b)
}

// rest frees memory that was kept for further batches.
func (s *sent) rest() { s.scratch, s.free = nil, nil }

// full reports whether there is no room for more.
func (s *sent) full() bool { return s.bytes >= mostUntaken }

var errTaken = errors.New("the other side claims to have frames that were not sent, or fewer than before")

// take notes that the other side has taken so many frames, ever.
func (s *sent) take(frames uint64) error {
	if frames < s.taken || frames > s.frames {
		return errTaken
	}
	s.taken = frames
	for len(s.batches) > 0 && s.batches[0].last <= frames {
		s.bytes -= len(s.batches[0].frames)
		if memory := s.batches[0].memory; memory != nil && len(s.free) < mostFree {
			s.free = append(s.free, memory)
		}
		s.batches[0] = batch{}
		s.batches = s.batches[1:]
	}
	return nil
}

// again returns the frames that a new connection has to send first, as the other side has taken
// so many. Its memory stays until they are taken.
func (s *sent) again(frames uint64) ([][]byte, error) {
	if err := s.take(frames); err != nil {
		return nil, err
	}
	var out [][]byte
	for _, b := range s.batches {
		part := b.frames
		for n := b.last - count(part); n < frames; n++ { // of the first batch alone
			part = part[frameBytes(part):]
		}
		out = append(out, part)
	}
	return out, nil
}

// count is how many frames there are.
func count(frames []byte) (n uint64) {
	for ; len(frames) > 0; n++ {
		frames = frames[frameBytes(frames):]
	}
	return n
}

// void has entries of a connection count as sent, and nothing more.
func (s *sent) void(n name) {
	for _, b := range s.batches {
		for part := b.frames; len(part) > 0; part = part[frameBytes(part):] {
			if kind(part[4]) == frameEntry && binary.LittleEndian.Uint32(part[5:]) == n.own && binary.LittleEndian.Uint32(part[9:]) == n.other {
				part[4] = byte(frameVoid)
			}
		}
	}
}

// frameBytes is the size of the first of some frames, with its head.
func frameBytes(frames []byte) int { return 4 + int(binary.LittleEndian.Uint32(frames)) }
