package broker

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Far connects queue pairs with those of other brokers: of other machines, or of other runs of this one. Its methods
// are called like those of the broker, one at a time. A request that another broker has to answer first is Pending.
type Far interface {
	// Has reports whether a port of another broker has an address.
	Has(lid uint16, global bool, gid [16]byte) bool
	// Connect begins the connection of a queue pair with its destination.
	Connect(e End) (FarPair, error)
	// Attach returns an inbox whose messages go to a datagram queue pair. Whether that is there
	// may be found out later.
	Attach(r *message.Attach) (Inbox, error)
	// Join notes that a datagram queue pair of this machine is in a multicast group, and Leave that it is not.
	Join(m Membership) error
	Leave(m Membership)
	// Members returns queue pairs of other machines in a group, as far as these have reported them.
	Members(gid [16]byte) []message.Member
	// Find returns the address of the port of another broker that an IP address reaches, and whether requests for
	// connections go there now: else they wait until Broker.Answer is called.
	Find(space uint32, to netip.AddrPort) (a Address, ready, is bool)
	// Listen notes that a program of this broker listens for connections, or does so no more.
	Listen(l Listener, on bool)
	// Call passes the request of an identifier on to such a port, which f stands for.
	Call(f FarIdentifier, to Address, request Step) (FarCall, error)
}

// Listener is a program that listens for connections. LID is that of its port.
type Listener struct {
	LID   uint16
	Space uint32
	At    netip.AddrPort
}

// Membership is that of a datagram queue pair in a multicast group. LID is that of its port.
type Membership struct {
	GID    [16]byte
	LID    uint16
	Number uint32
}

// FarPair is the connection of a queue pair with one of another machine.
type FarPair interface {
	// Rings are the rings.
	Rings() (Rings, error)
	// Peer stands for the other side: its process, the number of that, and the slot of the queue
	// pair there. It is nil while the other side has not connected.
	Peer() (p Process, number, slot uint32)
	// Resolve returns the memory behind a key of the peer.
	Resolve(key uint32) (Resolution, error)
	// State passes on the state of the queue pair.
	State(s State)
	// Fail has the other side go to the error state, with an event unless that is negative.
	Fail(event int32)
	// Close ends the connection. The other side finds the queue pair gone.
	Close()
}

// Rings are a pair of rings: the queue pair writes the one of index TX, and reads that of RX. Relayed: the broker is at
// their other end.
type Rings struct {
	Segment Segment
	TX, RX  uint8
	Relayed bool
}

// Pending is the error of a request that another broker has to answer first. The same request finds the answer once
// Done is closed. Who waits no longer calls Late.
type Pending struct {
	Done <-chan struct{}
	Late func()
}

func (*Pending) Error() string { return "another broker has not answered" }

// Unwrap returns what programs see where it never answers.
func (*Pending) Unwrap() error { return syscall.ENOTCONN }

// SetFar has queue pairs connect with those of other brokers, too.
func (b *Broker) SetFar(f Far) { b.far = f }

// End is the queue pair of a connection with another broker.
type End struct{ q *queuePair }

// Number is its own number, and Destination that of the other side.
func (e End) Number() uint32 { return e.q.number }

// Destination is the number of the other side.
func (e End) Destination() uint32 { return e.q.destination }

// Kind is its type.
func (e End) Kind() Type { return e.q.kind }

// State is its state.
func (e End) State() State { return e.q.state }

// Slot is its place in the table of its process.
func (e End) Slot() uint32 { return e.q.slot }

// ProcessNumber is that of its process, at this broker.
func (e End) ProcessNumber() uint32 { return e.q.session.Number }

// Resolve returns the memory behind a key of its protection domain, for its peer.
func (e End) Resolve(key uint32) (Resolution, error) { return e.q.resolve(key) }

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

// isFar reports whether a port of another broker, and none of this one, has an address.
func (b *Broker) isFar(lid uint16, global bool, gid [16]byte) bool {
	return b.far != nil && b.find(lid, global, gid) == nil && b.far.Has(lid, global, gid)
}

// connectFar is Connect for a destination at another broker.
func (q *queuePair) connectFar() (c Connection, err error) {
	if q.far == nil {
		if q.far, err = q.session.node.broker.far.Connect(End{q}); err != nil {
			return Connection{}, err
		}
	}
	r, err := q.far.Rings()
	if err != nil {
		return Connection{}, err
	}
	c = Connection{Rings: r.Segment, TX: r.TX, RX: r.RX, Far: r.Relayed}
	c.Peer, c.PeerNumber, c.PeerSlot = q.far.Peer()
	return c, nil
}

// Unchecked is the memory behind a key that the other side checks.
func Unchecked(slot uint32) Resolution {
	return Resolution{Length: ^uint64(0), Access: remoteRights, Slot: slot}
}
