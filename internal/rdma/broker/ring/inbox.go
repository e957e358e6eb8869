package ring

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Inbox is the memory of a datagram queue pair's inbox.
type Inbox []byte

// slot is the memory of message number n.
func (b Inbox) slot(n uint64) []byte {
	at := message.InboxEntries + int(n%message.InboxSlots)*message.InboxSlot
	return b[at : at+message.InboxSlot]
}

func turn(slot []byte) *uint64 { return (*uint64)(unsafe.Pointer(&slot[0])) }

// base is what the turn of a slot is counted from.
func base(n uint64) uint64 { return n - n%message.InboxSlots }

// Places in a slot.
const (
	slotBytes   = 12
	slotHeader  = 8 // what follows the turn
	slotLID     = 28
	slotDetails = 32 // flags to the end of the fixed part
	slotGRH     = 40
)

// DatagramHeader is how many bytes Next returns before the message.
const DatagramHeader = slotDetails - slotHeader + slotGRH

// Next returns message number n, its header first, and whether it has come. The caller copies it and then calls Release.
func (b Inbox) Next(n uint64) (header, text []byte, is bool) {
	slot := b.slot(n)
	if atomic.LoadUint64(turn(slot)) != base(n)+1 {
		return nil, nil, false
	}
	bytes := binary.LittleEndian.Uint32(slot[slotBytes:])
	if bytes > message.InboxMessage {
		bytes = 0 // no library sends such
	}
	return slot[slotHeader : slotHeader+DatagramHeader], slot[message.InboxHeader : message.InboxHeader+int(bytes)], true
}

func (b Inbox) receives() *uint64 { return (*uint64)(unsafe.Pointer(&b[message.InboxReceives])) }

// Receives is how many receives are posted for messages, by what its program claims.
func (b Inbox) Receives() uint64 { return atomic.LoadUint64(b.receives()) }

// TakeAll notes that its reader takes all messages.
func (b Inbox) TakeAll() { atomic.StoreUint64(b.receives(), ^uint64(0)) }

// Source is the LID of the sender of a message, by its header.
func Source(header []byte) uint16 { return binary.LittleEndian.Uint16(header[slotLID-slotHeader:]) }

// Release frees the slot of message number n.
func (b Inbox) Release(n uint64) {
	atomic.StoreUint64(turn(b.slot(n)), base(n)+message.InboxSlots)
}

// mostTurns is how often other senders may be quicker.
const mostTurns = 1000

// Put writes a message, among other senders; false: there is no room.
func (b Inbox) Put(header, text []byte) bool {
	head := (*uint64)(unsafe.Pointer(&b[0]))
	for range mostTurns {
		n := atomic.LoadUint64(head)
		slot := b.slot(n)
		if atomic.LoadUint64(turn(slot)) != base(n) {
			if atomic.LoadUint64(head) == n {
				return false
			}
			continue
		}
		if !atomic.CompareAndSwapUint64(head, n, n+1) {
			continue
		}
		copy(slot[slotHeader:], header)
		binary.LittleEndian.PutUint32(slot[slotBytes:], uint32(len(text)))
		copy(slot[message.InboxHeader:], text)
		atomic.StoreUint64(turn(slot), base(n)+1)
		return true
	}
	return false
}
