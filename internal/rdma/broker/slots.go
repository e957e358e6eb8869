package broker

import "github.com/bee-hpc/bee/internal/rdma/broker/message"

// Slots are places in a process table, of which a process has message.Slots.
type Slots struct {
	free []uint32
	used uint32
}

// Take returns one that is free, and whether there is one.
func (s *Slots) Take() (slot uint32, is bool) {
	if n := len(s.free); n > 0 {
		slot, s.free = s.free[n-1], s.free[:n-1]
		return slot, true
	}
	if s.used == message.Slots {
		return 0, false
	}
	s.used++
	return s.used - 1, true
}

// Put gives one back.
func (s *Slots) Put(slot uint32) { s.free = append(s.free, slot) }
