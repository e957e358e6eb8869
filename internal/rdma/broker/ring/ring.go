// Package ring reads and writes the memory that a program shares with its peer, as
// verbs/shared.h has it: for a connection with another machine the broker is the peer. It
// believes nothing of what a program has written there.
package ring

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Fragment is how many bytes one entry carries at most.
const Fragment = 64 << 10

// SharedReceives is what a reader with a shared receive queue has posted.
const SharedReceives = ^uint64(0)

// ErrDamaged is the error of a ring with what no library writes.
var ErrDamaged = errors.New("a ring of queue pairs is damaged")

// ErrFull is the error of a writer without room.
var ErrFull = errors.New("a ring of queue pairs is full")

// Pair returns the two rings of the memory of a pair.
func Pair(memory []byte) [2]Ring {
	return [2]Ring{memory[:message.RingBytes:message.RingBytes], memory[message.RingBytes:message.PairBytes:message.PairBytes]}
}

// Ring is the memory of one direction.
type Ring []byte

func (r Ring) word(at int) *uint64    { return (*uint64)(unsafe.Pointer(&r[at])) }
func (r Ring) half(at int) *uint32    { return (*uint32)(unsafe.Pointer(&r[at])) }
func (r Ring) load(at int) uint64     { return atomic.LoadUint64(r.word(at)) }
func (r Ring) store(at int, n uint64) { atomic.StoreUint64(r.word(at), n) }

// Posted is how many receives the reader has posted, ever, or SharedReceives.
func (r Ring) Posted() uint64 { return r.load(message.RingPosted) }

// Capacity is the size in bytes of a receive.
func (r Ring) Capacity(n uint64) uint32 {
	return atomic.LoadUint32(r.half(message.RingCapacity + 4*int(n%message.Credits)))
}

// Post publishes receives for the writer: from number n on, of these sizes.
func (r Ring) Post(n uint64, capacities []uint32) {
	for i, c := range capacities {
		atomic.StoreUint32(r.half(message.RingCapacity+4*int((n+uint64(i))%message.Credits)), c)
	}
	r.store(message.RingPosted, n+uint64(len(capacities)))
}

// PostShared publishes that the reader has a shared receive queue.
func (r Ring) PostShared() { r.store(message.RingPosted, SharedReceives) }

// Done is the number of the last request that the reader has carried out, and how one ended
// that failed.
func (r Ring) Done() (number uint64, status uint32) {
	number = r.load(message.RingDone)
	return number, atomic.LoadUint32(r.half(message.RingDoneStatus))
}

// SetDone publishes it for the writer.
func (r Ring) SetDone(number uint64, status uint32) {
	if status != 0 {
		atomic.StoreUint32(r.half(message.RingDoneStatus), status)
	}
	r.store(message.RingDone, number)
}

// Attach marks the ring as one whose writer is there.
func (r Ring) Attach() { atomic.StoreUint32(r.half(message.RingAttached), 1) }

// Whole is how many bytes of a ring an entry takes.
func Whole(payload uint32) uint64 {
	return (message.EntryBytes + uint64(payload) + message.EntryBytes - 1) &^ (message.EntryBytes - 1)
}

// Reader reads what a program writes.
type Reader struct {
	Ring Ring
	tail uint64
}

// Next returns the next entry as it is in memory, head and payload, and whether there is one.
// Programs may change it at any time: the caller copies it, and then calls Consume.
func (r *Reader) Next() (e message.Entry, raw []byte, is bool, err error) {
	for range 2 { // a library writes one that fills the ring to its end, at most
		ready := r.Ring.load(message.RingHead) - r.tail
		if ready == 0 {
			return message.Entry{}, nil, false, nil
		}
		if ready < message.EntryBytes || ready > message.RingData {
			return message.Entry{}, nil, false, ErrDamaged
		}
		at := int(r.tail % message.RingData)
		if e, err = Decode(r.Ring[message.RingEntries+at:]); err != nil {
			return message.Entry{}, nil, false, err
		}
		whole := Whole(e.Bytes)
		if whole > ready || uint64(at)+whole > message.RingData {
			return message.Entry{}, nil, false, ErrDamaged
		}
		if e.Opcode != message.EntrySkip {
			if e.Bytes > Fragment {
				return message.Entry{}, nil, false, ErrDamaged
			}
			return e, r.Ring[message.RingEntries+at : message.RingEntries+at+message.EntryBytes+int(e.Bytes)], true, nil
		}
		r.Consume(e.Bytes)
	}
	return message.Entry{}, nil, false, ErrDamaged
}

// Waiting reports whether there is something to read.
func (r *Reader) Waiting() bool { return r.Ring.load(message.RingHead) != r.tail }

// Consume releases an entry with so many bytes of payload.
func (r *Reader) Consume(payload uint32) {
	r.tail += Whole(payload)
	r.Ring.store(message.RingTail, r.tail)
}

// Writer writes for a program.
type Writer struct {
	Ring Ring
	head uint64
}

// Put writes an entry: its head, and its payload. ErrFull: the program has not read enough.
func (w *Writer) Put(e message.Entry, payload []byte) error {
	need := Whole(e.Bytes)
	offset := w.head % message.RingData
	rest := message.RingData - offset
	total := need
	if rest < need {
		total = rest + need
	}
	used := w.used()
	if used > message.RingData {
		return ErrDamaged
	}
	if used+total > message.RingData {
		return ErrFull
	}
	if total > need {
		w.place(message.Entry{Opcode: message.EntrySkip, Bytes: uint32(rest - message.EntryBytes)}, nil)
		w.head += rest
	}
	w.place(e, payload)
	w.head += need
	w.Ring.store(message.RingHead, w.head)
	return nil
}

func (w *Writer) place(e message.Entry, payload []byte) {
	at := message.RingEntries + int(w.head%message.RingData)
	copy(w.Ring[at:], Encode(nil, e))
	copy(w.Ring[at+message.EntryBytes:], payload)
}

// used is how many bytes the program has not read yet.
func (w *Writer) used() uint64 { return w.head - w.Ring.load(message.RingTail) }

// Used is how many bytes the program has not read yet, by what it claims.
func (w *Writer) Used() uint64 { return min(w.used(), message.RingData) }

// Encode appends the head of an entry.
func Encode(to []byte, e message.Entry) []byte {
	for _, n := range []uint32{e.Opcode, e.Flags, e.Bytes, e.Imm} {
		to = binary.LittleEndian.AppendUint32(to, n)
	}
	for _, n := range []uint64{e.Total, e.Request, e.Address} {
		to = binary.LittleEndian.AppendUint64(to, n)
	}
	to = binary.LittleEndian.AppendUint32(to, e.Key)
	to = binary.LittleEndian.AppendUint32(to, e.Status)
	to = binary.LittleEndian.AppendUint64(to, e.Operand[0])
	return binary.LittleEndian.AppendUint64(to, e.Operand[1])
}

// Decode reads the head of an entry.
func Decode(raw []byte) (message.Entry, error) {
	if len(raw) < message.EntryBytes {
		return message.Entry{}, ErrDamaged
	}
	l := binary.LittleEndian
	return message.Entry{
		Opcode: l.Uint32(raw), Flags: l.Uint32(raw[4:]), Bytes: l.Uint32(raw[8:]), Imm: l.Uint32(raw[12:]),
		Total: l.Uint64(raw[16:]), Request: l.Uint64(raw[24:]), Address: l.Uint64(raw[32:]),
		Key: l.Uint32(raw[40:]), Status: l.Uint32(raw[44:]), Operand: [2]uint64{l.Uint64(raw[48:]), l.Uint64(raw[56:])},
	}, nil
}
