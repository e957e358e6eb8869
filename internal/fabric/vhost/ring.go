package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/bee-hpc/bee/internal/fabric/loop"
)

// The guest's two rings.
const (
	receiving = iota // what the guest gets
	sending
	ringCount
)

// Flags of descriptors (VIRTIO 1.2, 2.7.5).
const (
	descNext     = 1
	descWrite    = 2
	descIndirect = 4
	descSize     = 16
)

// maxRing is the largest ring that virtio has.
const maxRing = 32768

// ring is one split ring (VIRTIO 1.2, 2.7): the driver's available buffers, and
// the used ones, which are ours to write. The memory is the guest's, who may
// write anything there at any time: what counts is read once, and checked.
type ring struct {
	mu      sync.Mutex
	source  *loop.Source // of kicks
	num     uint16
	at      [3]uint64 // where desc, used and avail are in the hypervisor
	desc    []byte
	used    []byte
	avail   []byte
	usedAt  uint64 // in the guest, for the map of dirty pages
	logged  bool
	next    uint16 // of the available ring, ours to take
	filled  uint16 // index of the used ring, as published
	enabled bool
	kick    atomic.Pointer[loop.Event]
	call    *loop.Event
	fence   atomic.Int32
	buffers []segment // of the chains that are dealt with
	chains  []chain
	parts   [][]byte // of what is written there
	header  [ringHeader]byte
}

// chain is one of the driver's buffers: its first descriptor, and which of the ring's
// segments are its parts.
type chain struct {
	head     uint16
	from, to int
}

// segment is a part of a buffer, in memory here and in the guest.
type segment struct {
	data  []byte
	guest uint64
}

// running reports whether the ring may be used. Callers hold mu.
func (r *ring) running() bool { return r.kick.Load() != nil && r.enabled && r.used != nil }

func word(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(&b[0])) } // aligned: see memory.whole

// available is the driver's index.
func (r *ring) available() uint16 { return uint16(atomic.LoadUint32(word(r.avail)) >> 16) }

// head is the descriptor with which the i-th available buffer begins.
func (r *ring) head(i uint16) uint16 {
	return binary.LittleEndian.Uint16(r.avail[4+2*int(i%r.num):])
}

// forget has no chains dealt with any more.
func (r *ring) forget() { r.buffers, r.chains = r.buffers[:0], r.chains[:0] }

// chain adds the one that begins at a descriptor to those that are dealt with, and
// gives its parts: those that the device shall write, or read.
func (r *ring) chain(m memory, head uint16, writable bool) ([]segment, error) {
	table, i, from := r.desc, head, len(r.buffers)
	for steps := 0; ; steps++ {
		if steps > maxRing || int(i)*descSize+descSize > len(table) {
			return nil, fmt.Errorf("descriptor %d leads nowhere", i)
		}
		d := table[int(i)*descSize:]
		address, length := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint32(d[8:])
		flags, next := binary.LittleEndian.Uint16(d[12:]), binary.LittleEndian.Uint16(d[14:])
		if flags&descIndirect != 0 {
			inner := m.at(address, int(length))
			if &table[0] != &r.desc[0] || len(inner) != int(length) || length == 0 || length%descSize != 0 || length > maxRing*descSize {
				return nil, errors.New("a table of descriptors that cannot be")
			}
			table, i = inner, 0
			continue
		}
		if (flags&descWrite != 0) == writable {
			for length > 0 {
				part := m.at(address, int(length))
				if len(part) == 0 {
					return nil, fmt.Errorf("a buffer at %#x, where the guest has no memory", address)
				}
				r.buffers = append(r.buffers, segment{part, address})
				address, length = address+uint64(len(part)), length-uint32(len(part))
			}
		}
		if flags&descNext == 0 {
			r.chains = append(r.chains, chain{head, from, len(r.buffers)})
			return r.buffers[from:], nil
		}
		i = next
	}
}

// use notes, offset places after what is published, that a buffer is done with,
// and how many bytes were written to it.
func (r *ring) use(offset, head uint16, written int) {
	entry := r.used[4+8*int((r.filled+offset)%r.num):]
	binary.LittleEndian.PutUint32(entry, uint32(head))
	binary.LittleEndian.PutUint32(entry[4:], uint32(written))
}

// publish hands n used buffers, if these are some, to the driver, and calls it if it
// wants that.
func (r *ring) publish(n uint16, events bool, log dirty) {
	if n == 0 {
		return
	}
	old := r.filled
	r.filled += n
	atomic.StoreUint32(word(r.used), uint32(r.filled)<<16)
	if r.logged && log != nil {
		log.mark(r.usedAt, len(r.used))
	}
	r.fence.Add(1) // what the driver wants is read after it can see what is done
	wanted := atomic.LoadUint32(word(r.avail))&1 == 0
	if events {
		event := binary.LittleEndian.Uint16(r.avail[4+2*int(r.num):])
		wanted = r.filled-event-1 < r.filled-old
	}
	if wanted && r.call != nil {
		r.call.Set()
	}
}

// await asks the driver to report when it goes beyond the index that was seen,
// and reports whether it has already.
func (r *ring) await(events bool, seen uint16) (already bool) {
	if events {
		binary.LittleEndian.PutUint16(r.used[4+8*int(r.num):], seen)
	}
	r.fence.Add(1) // the driver sees the wish before we look a last time
	return r.available() != seen
}

// halt stops the ring, and gives the place where it stood.
func (r *ring) halt() uint16 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noKick()
	return r.next
}

// kickBy has another event be the driver's kick. Callers hold mu.
func (r *ring) kickBy(kick *loop.Event) (err error) {
	if err = kick.Of(r.source); err != nil {
		kick.Close()
		kick = nil
	}
	r.swapKick(kick)
	return err
}

// noKick ends the driver's kick. Callers hold mu.
func (r *ring) noKick() {
	r.source.Unwatch()
	r.swapKick(nil)
}

func (r *ring) swapKick(kick *loop.Event) {
	r.kick.Swap(kick).Close()
	r.source.Call()
}

// callBy has the driver called by another event. Callers hold mu.
func (r *ring) callBy(call *loop.Event) {
	r.call.Close()
	r.call = call
}

// heard takes the driver's kick as dealt with.
func (r *ring) heard() {
	if kick := r.kick.Load(); kick != nil {
		kick.Clear()
	}
}
