package buffer

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"slices"
)

// Position is a place between two bytes of a journal.
type Position struct {
	Segment uint64 `json:"g"`
	At      int64  `json:"a"`
}

// Before reports whether the position is before another one.
func (p Position) Before(q Position) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.At < q.At
}

// Piece is what a copy of a journal gets next: bytes of a segment, or an index.
type Piece struct {
	// At is where Bytes are, and before which the copy has everything.
	At    Position
	Bytes []byte
	// Index is the file of an index; nil: the piece is none. Of the segments that it is about, Kept are in use.
	Index []byte
	Kept  []uint64
}

// Tail reads a journal in the order in which a copy is to get it. What the copy lacks stays in the journal.
type Tail struct {
	log *Log
	at  Position
	// kept is what the copy has. The lock of the log guards it.
	kept    Position
	indexed uint64 // number of the index that was read last
}

// Tail begins to read the journal, with its oldest segment.
func (l *Log) Tail() *Tail {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := Position{Segment: slices.Min(slices.Collect(maps.Keys(l.segments)))}
	t := &Tail{log: l, at: first, kept: first}
	l.tails[t] = true
	return t
}

// Close ends the reading.
func (t *Tail) Close() {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	delete(t.log.tails, t)
}

// Keep notes that the copy has everything before a position, which Next has given.
func (t *Tail) Keep(at Position) {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	if t.kept.Before(at) && !t.at.Before(at) {
		t.kept = at
	}
}

// Rewind continues at the end of the copy, whose connection was lost, and reports whether it can.
func (t *Tail) Rewind(at Position) bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	if at == (Position{}) { // it has nothing
		at = Position{Segment: t.kept.Segment}
		if t.kept.At > 0 {
			return false
		}
	}
	s := t.log.segments[at.Segment]
	if at.Before(t.kept) || t.at.Before(at) || s == nil || at.At > s.size {
		return false
	}
	t.at, t.indexed = at, 0 // the copy may not have got the last one
	return true
}

// At is the position up to which Next has read.
func (t *Tail) At() Position { return t.at }

// End is the position behind the last record.
func (l *Log) End() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Position{Segment: l.current.number, At: l.current.size}
}

// Next reads what comes next, most bytes of records at a time. A piece without content is the end.
func (t *Tail) Next(most int64) (Piece, error) {
	t.log.mu.Lock()
	s := t.log.segments[t.at.Segment]
	for s != nil && t.at.At >= s.size && s != t.log.current {
		next := t.log.current
		for number, other := range t.log.segments {
			if number > s.number && number < next.number {
				next = other
			}
		}
		s, t.at = next, Position{Segment: next.number}
	}
	indexes, indexAt := t.log.indexes, t.log.indexAt
	kept := slices.Sorted(maps.Keys(t.log.segments))
	size := int64(0)
	if s != nil {
		size = s.size
	}
	t.log.mu.Unlock()
	if s == nil {
		return Piece{}, fs.ErrClosed
	}
	if t.indexed != indexes && !t.at.Before(indexAt) {
		raw, err := t.log.dir.ReadFile(indexName, mostIndex)
		if err != nil {
			return Piece{}, err
		}
		at, err := indexEnd(raw)
		if err != nil {
			return Piece{}, err
		}
		if !t.at.Before(at) { // else a newer one has just been written
			t.indexed = indexes
			return Piece{At: t.at, Index: raw, Kept: kept}, nil
		}
	}
	p := Piece{At: t.at, Bytes: make([]byte, min(most, size-t.at.At))}
	if len(p.Bytes) == 0 {
		return Piece{}, nil
	}
	if _, err := s.f.ReadAt(p.Bytes, t.at.At); err != nil {
		return Piece{}, err
	}
	t.at.At += int64(len(p.Bytes))
	return p, nil
}

// indexEnd gives the position up to which records need not be replayed.
func indexEnd(raw []byte) (Position, error) {
	if len(raw) < indexHead {
		return Position{}, errors.New("the index is too short")
	}
	return Position{Segment: binary.LittleEndian.Uint64(raw[12:]), At: int64(binary.LittleEndian.Uint64(raw[20:]))}, nil // written the same way
}

// lacked reports whether a copy lacks something of a segment. Callers hold the lock.
func (l *Log) lacked(number uint64) bool {
	for t := range l.tails {
		if number >= t.kept.Segment {
			return true
		}
	}
	return false
}
