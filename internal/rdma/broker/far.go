package broker

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Far connects queue pairs with those of other machines. Its methods are called like those of
// the broker, one at a time.
type Far interface {
	// Has reports whether a port of another machine has an address.
	Has(lid uint16, global bool, gid [16]byte) bool
	// Connect begins the connection of a queue pair with its destination.
	Connect(e End) (FarPair, error)
	// Attach returns an inbox whose messages go to a datagram queue pair. Whether that is there
	// is found out later.
	Attach(r *message.Attach) (Inbox, error)
	// Join notes that a datagram queue pair of this machine is in a multicast group, and Leave that it is not.
	Join(m Membership) error
	Leave(m Membership)
	// Members returns queue pairs of other machines in a group, as far as these have reported them.
	Members(gid [16]byte) []message.Member
	// Find returns the address of the port of another machine that an IP address reaches.
	Find(ip netip.Addr) (Address, bool)
	// Call passes the request of an identifier on to such a port, which f stands for.
	Call(f FarIdentifier, to Address, request Step) (FarCall, error)
}

// Membership is that of a datagram queue pair in a multicast group. LID is that of its port.
type Membership struct {
	GID    [16]byte
	LID    uint16
	Number uint32
}

// FarPair is the connection of a queue pair with one of another machine.
type FarPair interface {
	// Rings are the pair of rings: the queue pair writes the first one, and reads the second.
	Rings() Segment
	// Peer stands for the other side: its process, the number of that, and the slot of the queue
	// pair there. It is nil while the other side has not connected.
	Peer() (p Process, number, slot uint32)
	// Key makes a key known as one of the peer, and returns its slot.
	Key(key uint32) (slot uint32)
	// State passes on the state of the queue pair.
	State(s State)
	// Fail has the other side go to the error state, with an event unless that is negative.
	Fail(event int32)
	// Close ends the connection. The other side finds the queue pair gone.
	Close()
}

// SetFar has queue pairs connect with those of other machines, too.
func (b *Broker) SetFar(f Far) { b.far = f }

// End is the queue pair of a connection with another machine.
type End struct{ q *queuePair }

// Number is its own number, and Destination that of the other side.
func (e End) Number() uint32 { return e.q.number }

// Destination is the number of the other side.
func (e End) Destination() uint32 { return e.q.destination }

// Kind is its type.
func (e End) Kind() Type { return e.q.kind }

// State is its state.
func (e End) State() State { return e.q.state }

// Receives reports whether its state is one in which requests of the other side are carried out.
func (e End) Receives() bool { return e.q.state.connected() }

// Address is that of its own port.
func (e End) Address() Address { return e.q.session.node.Address }

// Towards is the address that it was given of the other side's port.
func (e End) Towards() (lid uint16, global bool, gid [16]byte) { return e.q.lid, e.q.global, e.q.gid }

// LongestWait is how long its requests may wait without a way to the other side; 0: for ever. A card may
// take four times its timeout for each try.
func (e End) LongestWait() time.Duration {
	if e.q.timeout == 0 {
		return 0
	}
	return 4 * (4096 * time.Nanosecond << e.q.timeout) * time.Duration(e.q.retries+1)
}

// Process is its process.
func (e End) Process() Process { return e.q.session.process }

// Fail moves it to the error state, with an event unless that is negative.
func (e End) Fail(event int32) {
	if e.q.state.connected() {
		e.q.fail(Failed, event)
	}
}

// Piece is a part of shared memory.
type Piece struct {
	Segment   Segment
	At, Bytes uint64
}

// Reach returns the memory from an address on, behind a key of the queue pair's protection domain
// that gives a right. Without pieces, the owner copies. EACCES: there is no such key, or it
// does not reach as far.
func (e End) Reach(key uint32, address, bytes uint64, right uint32) ([]Piece, error) {
	m := e.q.session.node.broker.keys[key]
	if m == nil || m.pd != e.q.pd || m.access&e.q.access&right != right || address < m.iova || bytes > m.length || address-m.iova > m.length-bytes {
		return nil, syscall.EACCES
	}
	offset := address - m.iova + m.addr&pageRemainder
	var pieces []Piece
	for _, x := range m.extents {
		if bytes == 0 {
			break
		}
		if offset < x.offset || offset-x.offset >= x.bytes {
			continue
		}
		n := min(bytes, x.bytes-(offset-x.offset))
		pieces = append(pieces, Piece{Segment: x.region.segment, At: x.at + offset - x.offset, Bytes: n})
		offset += n
		bytes -= n
	}
	return pieces, nil
}

// Receiver returns the inbox of a datagram queue pair of a port of this machine. ENOENT: none receives there.
func (b *Broker) Receiver(lid uint16, number uint32) (Inbox, error) {
	q := b.qps[number]
	if q == nil || q.kind != Datagram || !q.state.connected() || q.session.node != b.find(lid, false, [16]byte{}) {
		return Inbox{}, syscall.ENOENT
	}
	return Inbox{Segment: q.inbox, Owner: q.session.process, Process: q.session.Number, Slot: q.slot}, nil
}

// isFar reports whether a port of another machine, and none of this one, has an address.
func (b *Broker) isFar(lid uint16, global bool, gid [16]byte) bool {
	return b.far != nil && b.find(lid, global, gid) == nil && b.far.Has(lid, global, gid)
}

// connectFar is Connect for a destination on another machine.
func (q *queuePair) connectFar() (c Connection, err error) {
	if q.far == nil {
		if q.far, err = q.session.node.broker.far.Connect(End{q}); err != nil {
			return Connection{}, err
		}
	}
	c = Connection{Rings: q.far.Rings(), TX: 0, RX: 1, Far: true}
	c.Peer, c.PeerNumber, c.PeerSlot = q.far.Peer()
	return c, nil
}

// resolveFar lets all keys pass: the other side checks them.
func (q *queuePair) resolveFar(key uint32) (Resolution, error) {
	if p, _, _ := q.far.Peer(); p == nil {
		return Resolution{}, syscall.ENOTCONN
	}
	return Resolution{Length: ^uint64(0), Access: remoteRights, Slot: q.far.Key(key)}, nil
}
