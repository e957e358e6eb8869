// Package forward connects queue pairs of this machine with those of others. To a program, the
// broker is its peer: it reads and writes the same rings and inboxes as the library of a peer
// does. Entries of the rings travel to the broker of the other machine, by one connection for
// each pair of brokers. That broker carries out one-sided requests itself, in memory that
// programs share, so the target's program takes no part. Memory that cannot be shared is its
// owner's, as between programs of one machine.
//
// The package knows no descriptors and no processes: the host's broker has them (Host).
package forward

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
)

// Host is the broker of this machine, and what it shares with programs. Its lock guards the
// broker and all of a Far.
type Host interface {
	sync.Locker
	// NewSegment makes shared memory.
	NewSegment(bytes int64) (broker.Segment, error)
	// Memory returns a segment's memory, until the segment is closed.
	Memory(s broker.Segment) ([]byte, error)
	// Wake wakes a process if it sleeps.
	Wake(p broker.Process)
	// Receiver returns the inbox of a datagram queue pair of this machine.
	Receiver(lid uint16, number uint32) (broker.Inbox, error)
	// Called has a program of this machine get the request of one of another machine.
	Called(s broker.Step, c broker.FarCall) (f broker.FarIdentifier, giveUp func(), err error)
}

// Peer is the process that stands for all queue pairs of other machines.
type Peer interface {
	broker.Process
	// Number is that of the process.
	Number() uint32
	// Sleep notes that one more, or one less, sleeps until a program wakes the process.
	Sleep(on bool)
	// Await waits until a program does. An error means that the process is closed.
	Await() error
}

// Options are what a Far is made with.
type Options struct {
	Host Host
	Peer Peer
	// Build is that of the library, and Ranks are the nodes of this machine.
	Build string
	Ranks []int
	// Size is how many nodes the run has.
	Size int
	// Address returns that of a node's port, and Rank the node with an address; false: none has it.
	Address func(rank int) broker.Address
	Rank    func(lid uint16, global bool, gid [16]byte) (int, bool)
	// Named returns the node that programs reach by an IP address; false: none.
	Named func(ip netip.Addr) (int, bool)
	// Together reports whether nodes that are known run on one machine.
	Together func(a, b int) bool
	// Want asks for a link with the broker of a node. It returns at once.
	Want func(rank int)
	// Warn logs an error that a program may repeat at will. It is called with the lock.
	Warn func(text string, err error)
}

// Far connects queue pairs with those of other machines. It implements broker.Far.
type Far struct {
	o     Options
	links map[int]*link // by rank
	// waiting are connections that have no link yet, by rank.
	waiting map[int][]*pair
	callers map[int][]*call // that have no link yet, by rank
	called  uint64          // number of the last call
	boxes   map[target]*outbox
	// joined are the members of multicast groups of this machine, and joins counts their changes.
	joined map[broker.Membership]bool
	joins  uint64
	slots  broker.Slots
	ended  bool
	bytes  map[uint16]uint64 // of payload that were sent, ever, by LID of a port of this machine
}

// mostBoxes is how many datagram queue pairs of other machines can be sent to.
const mostBoxes = 4096

// New returns one without links.
func New(o Options) *Far {
	f := &Far{o: o, links: map[int]*link{}, waiting: map[int][]*pair{}, callers: map[int][]*call{}, boxes: map[target]*outbox{}, joined: map[broker.Membership]bool{}, bytes: map[uint16]uint64{}}
	go f.listen()
	return f
}

// listen passes on what programs wake.
func (f *Far) listen() {
	for f.o.Peer.Await() == nil {
		f.o.Host.Lock()
		for _, l := range f.links {
			l.kick()
		}
		for _, b := range f.boxes {
			if _, _, is := b.inbox.Next(b.next); is && !f.Linked(b.rank) {
				f.o.Want(b.rank)
			}
		}
		f.o.Host.Unlock()
	}
}

// Has implements broker.Far.
func (f *Far) Has(lid uint16, global bool, gid [16]byte) bool {
	_, is := f.o.Rank(lid, global, gid)
	return is
}

// Connect implements broker.Far.
func (f *Far) Connect(e broker.End) (broker.FarPair, error) {
	rank, is := f.o.Rank(e.Towards())
	if !is || f.ended {
		return nil, fmt.Errorf("no node has the address of queue pair %d", e.Destination())
	}
	p, err := newPair(f, e, rank)
	if err != nil {
		return nil, err
	}
	if l := f.links[rank]; l != nil {
		l.add(p)
		return p, nil
	}
	f.waiting[rank] = append(f.waiting[rank], p)
	f.o.Want(rank)
	return p, nil
}

// Linked reports whether there is a link with the broker of a node.
func (f *Far) Linked(rank int) bool { return f.links[rank] != nil && f.links[rank].conn != nil }

// mostChurn is how old a connection has to be before the word of the other side ends it.
const mostChurn = time.Second

// Doubt ends the connection with the broker of a node, which claims to have none. A link outlives that.
func (f *Far) Doubt(rank int) {
	if l := f.links[rank]; l != nil && l.conn != nil && time.Since(l.since) > mostChurn {
		l.conn.Close()
	}
}

// Bytes is how many bytes of messages and requests a port has sent to other machines.
func (f *Far) Bytes(lid uint16) uint64 { return f.bytes[lid] }

// End ends all links.
func (f *Far) End() {
	f.ended = true
	for _, l := range f.links {
		if l.conn != nil {
			l.conn.Close()
		} else {
			l.lost()
		}
	}
}
