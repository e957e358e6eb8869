// Package broker owns the objects of BEE's own verbs device, bee_0: queue pairs and their
// connections, memory regions and their keys, connections by address, quotas and lifetimes. It is pure: it makes
// decisions for one request after the other, and reaches processes and memory by small
// interfaces. It knows neither sockets nor descriptors, which package server has.
package broker

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Segment is memory that processes share.
type Segment interface {
	// Close frees it, for those that have not mapped it.
	Close()
}

// Memory makes segments.
type Memory interface {
	New(bytes int64) (Segment, error)
}

// Process is a process that has opened the device.
type Process interface {
	// SetQP publishes a queue pair's number and state at a slot; state is one more than a
	// State, or 0 where none is there.
	SetQP(slot, number, state uint32)
	// SetKey publishes the key of a memory region at a slot; 0: there is none.
	SetKey(slot, key uint32)
	// Wake wakes the process if it sleeps. It never waits.
	Wake()
	// Event sends an event about an object. It never waits.
	Event(event, handle uint32)
	// EventChannel makes a socket for events of connections.
	EventChannel() (EventChannel, error)
}

// Events, as enum ibv_event_type has them.
const (
	EventQPFatal   = 1
	EventQPRequest = 2
	EventQPAccess  = 3
)

// Address is that of a port.
type Address struct {
	LID uint16
	GID [16]byte
	// IPs are those by which programs of other nodes reach the container.
	IPs []netip.Addr
}

// Limits are those of one node.
type Limits struct {
	Memory int64 // in bytes, of regions
	QPs    int
	MRs    int // and as many regions
	IDs    int // identifiers of connections, and as many event channels
	// PDs, CQs, SRQs and AHs are for each process, as is WR for each queue.
	PDs, CQs, SRQs, AHs, WR int
	Processes               int
}

// Limit is the error of a limit that is reached. It is ENOMEM for programs.
type Limit struct {
	Name  string // what there may be no more of
	Key   string // of the Beefile, which changes it; "": none does
	Value int64
}

func (l *Limit) Error() string {
	return fmt.Sprintf("the limit of %d for %s is reached", l.Value, l.Name)
}

// Unwrap returns what programs see.
func (*Limit) Unwrap() error { return syscall.ENOMEM }

// Broker owns the objects of all nodes of one machine. It is not safe for concurrent use.
type Broker struct {
	memory Memory
	random func() uint32
	nodes  []*Node
	qps    map[uint32]*queuePair    // by number
	keys   map[uint32]*memoryRegion // by key
	pairs  map[pairName]*pair
	groups map[[16]byte][]*queuePair
	// calling are requests for connections that nobody listens for yet, in order.
	calling []*identifier
	// retired are numbers of queue pairs that were destroyed, in order from next on.
	retired   []uint32
	next      int
	isRetired map[uint32]bool
	far       Far // nil: there are no other machines
}

// keepRetired is how many numbers of former queue pairs are not used again.
const keepRetired = 1 << 16

// New returns a broker without nodes. Keys and numbers come from random, which is not to
// be foreseen.
func New(m Memory, random func() uint32) *Broker {
	return &Broker{
		memory: m, random: random, qps: map[uint32]*queuePair{}, keys: map[uint32]*memoryRegion{},
		pairs: map[pairName]*pair{}, groups: map[[16]byte][]*queuePair{}, isRetired: map[uint32]bool{},
	}
}

// Node is a container with a port of its own.
type Node struct {
	Address Address
	Limits  Limits
	broker  *Broker

	sessions          map[*Session]bool
	qps, regions, mrs int
	ids, channels     int
	memory            int64
	ports             map[portName][]*identifier
	lastPort          uint16 // that was chosen
}

// Node adds one.
func (b *Broker) Node(a Address, l Limits) *Node {
	n := &Node{Address: a, Limits: l, broker: b, sessions: map[*Session]bool{}, ports: map[portName][]*identifier{}}
	b.nodes = append(b.nodes, n)
	return n
}

// Usage is what the objects of a node amount to.
type Usage struct {
	Processes int
	Memory    int64              // in bytes, of regions
	Objects   [message.Kinds]int // by kind
	States    [states]int        // of queue pairs
}

// Usage returns it.
func (n *Node) Usage() Usage {
	u := Usage{Processes: len(n.sessions), Memory: n.memory}
	for s := range n.sessions {
		for _, o := range s.objects {
			u.Objects[o.kind]++
			if o.qp != nil {
				u.States[o.qp.state]++
			}
		}
	}
	return u
}

// find returns the node with an address; nil: no node of this machine has it.
func (b *Broker) find(lid uint16, global bool, gid [16]byte) *Node {
	for _, n := range b.nodes {
		if global && n.Address.GID == gid || !global && n.Address.LID == lid {
			return n
		}
	}
	return nil
}

// number draws one for a queue pair: 24 bits, and none of those with a meaning.
func (b *Broker) number() uint32 {
	for {
		n := b.random() & 0xffffff
		if n < 16 || n == 0xffffff || b.qps[n] != nil || b.isRetired[n] {
			continue
		}
		return n
	}
}

func (b *Broker) retire(n uint32) {
	b.isRetired[n] = true
	if len(b.retired) < keepRetired {
		b.retired = append(b.retired, n)
		return
	}
	delete(b.isRetired, b.retired[b.next])
	b.retired[b.next] = n
	b.next = (b.next + 1) % keepRetired
}

// key draws one for a memory region.
func (b *Broker) key() uint32 {
	for {
		if k := b.random(); k != 0 && b.keys[k] == nil {
			return k
		}
	}
}
