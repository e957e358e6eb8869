package forward

import (
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// share is what stands for a queue pair of another machine: memory that programs here have, too, and a
// slot in the table of the Peer.
type share struct {
	slot    uint32
	segment broker.Segment
	memory  []byte
}

func (f *Far) share(bytes int64) (s share, err error) {
	var is bool
	if s.slot, is = f.slots.Take(); !is {
		return s, &broker.Limit{Name: "queue pairs of other machines", Value: message.Slots}
	}
	if s.segment, err = f.o.Host.NewSegment(bytes); err == nil {
		if s.memory, err = f.o.Host.Memory(s.segment); err == nil {
			return s, nil
		}
		s.segment.Close()
	}
	f.slots.Put(s.slot)
	return s, err
}

// unshare frees it, for those that have not mapped the memory.
func (f *Far) unshare(s share) {
	f.o.Peer.SetQP(s.slot, 0, 0)
	f.slots.Put(s.slot)
	s.segment.Close()
}
