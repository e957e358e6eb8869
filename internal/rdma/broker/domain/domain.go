// Package domain connects the brokers of several runs of one user on one host. Each run keeps its own broker, with its
// own limits. For each pair of brokers there is one socket, a link, on which they pass each other descriptors: of the
// rings of connections, of memory behind keys, and of what wakes a process. So the programs of two runs reach each other
// as those of one do, and no broker is on the way of their data.
//
// The package knows links and the directory in which brokers meet. It knows neither runs nor what descriptors are of
// (Host).
package domain

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Host is the broker of this run, and what it shares with programs. Its lock guards the broker and all of a Far.
type Host interface {
	sync.Locker
	// NewSegment makes shared memory.
	NewSegment(bytes int64) (broker.Segment, error)
	// Descriptor is that of a segment, which keeps it; for reading alone if that is asked for.
	Descriptor(s broker.Segment, readOnly bool) (int, error)
	// Segment makes one of a descriptor of another broker. The descriptor is then the segment's, and closed on an
	// error: of memory that is smaller, or may become so.
	Segment(descriptor int, bytes int64) (broker.Segment, error)
	// Descriptors are those of a process of this broker that its peers get.
	Descriptors(p broker.Process) []int
	// Process makes what stands for a process of another broker, of such descriptors. They are then its own, and closed
	// on an error.
	Process(descriptors []int) (Process, error)
	// Receiver returns the inbox of a datagram queue pair of this broker.
	Receiver(lid uint16, number uint32) (broker.Inbox, error)
	// Called has a program of this broker get the request of one of another.
	Called(s broker.Step, c broker.FarCall) (f broker.FarIdentifier, giveUp func(), err error)
	// Answer is called when programs of other brokers listen that did not before.
	Answer()
}

// Process stands for a process of another broker.
type Process interface {
	broker.Process
	// Number is that which programs of this broker know it by.
	Number() uint32
	Close()
}

// Options are what a Far is made with.
type Options struct {
	Host Host
	// Build is that of the library, and Own are the addresses of this broker's ports, whose LIDs follow each other.
	Build string
	Own   []broker.Address
	// Network identifies the network that the IP addresses are of: they mean the same to brokers with the same one. 0:
	// it is no other's.
	Network uint64
	// Warn logs an error that a program may repeat at will. It is called with the lock.
	Warn func(text string, err error)
	// Lost is called without the lock after a link has ended that the other side may not have ended in order.
	Lost func()
}

// Far connects queue pairs with those of other brokers of the domain. It implements broker.Far.
type Far struct {
	o     Options
	links []*link // by their LIDs
	// joined are the members of multicast groups of this broker, and listeners its programs that listen.
	joined    map[broker.Membership]bool
	listeners map[broker.Listener]bool
	conns     map[*net.UnixConn]bool // that End closes
	full      *link                  // one that was written to, and has much that waits; nil: none since Crowded
	serving   sync.WaitGroup
	ended     bool
}

// New returns one without links.
func New(o Options) *Far {
	return &Far{o: o, conns: map[*net.UnixConn]bool{}, joined: map[broker.Membership]bool{}, listeners: map[broker.Listener]bool{}}
}

// first is the first LID of this broker.
func (f *Far) first() uint16 { return f.o.Own[0].LID }

// own reports whether a port of this broker has a LID.
func (f *Far) own(lid uint16) bool { return lid >= f.first() && int(lid-f.first()) < len(f.o.Own) }

// link returns the one with the broker that has a LID; nil: none has it.
func (f *Far) link(lid uint16) *link {
	for _, l := range f.links {
		if _, is := l.port(lid); is {
			return l
		}
	}
	return nil
}

// find returns the link with the broker of a port, and the port.
func (f *Far) find(lid uint16, global bool, gid [16]byte) (*link, broker.Address) {
	for _, l := range f.links {
		for _, a := range l.ports {
			if global && a.GID == gid || !global && a.LID == lid {
				return l, a
			}
		}
	}
	return nil, broker.Address{}
}

// Has implements broker.Far.
func (f *Far) Has(lid uint16, global bool, gid [16]byte) bool {
	l, _ := f.find(lid, global, gid)
	return l != nil
}

// Connect implements broker.Far.
func (f *Far) Connect(e broker.End) (broker.FarPair, error) {
	l, to := f.find(e.Towards())
	if l == nil {
		return nil, syscall.ENOTCONN
	}
	return l.newPair(e, to.LID)
}

// Attach implements broker.Far.
func (f *Far) Attach(r *message.Attach) (broker.Inbox, error) {
	l, to := f.find(r.LID, r.Global != 0, r.GID)
	if l == nil {
		return broker.Inbox{}, syscall.ENOENT
	}
	return l.attach(to.LID, r.Number)
}

// Find implements broker.Far. Where several containers have an address, such as that of their host, the first one is
// meant whose program listens.
func (f *Far) Find(space uint32, to netip.AddrPort) (a broker.Address, ready, is bool) {
	for _, l := range f.links {
		if l.network != f.o.Network || l.network == 0 {
			continue
		}
		for _, port := range l.ports {
			if !slices.Contains(port.IPs, to.Addr()) {
				continue
			}
			if l.listens(port.LID, space, to) {
				return port, true, true
			}
			if !is {
				a, is = port, true
			}
		}
	}
	return a, false, is
}

// Listen implements broker.Far.
func (f *Far) Listen(l broker.Listener, on bool) {
	if on {
		f.listeners[l] = true
	} else {
		delete(f.listeners, l)
	}
	for _, other := range f.links {
		other.announce(l, on)
	}
}

// Ended notes that a process of this broker has ended.
func (f *Far) Ended(process uint32) {
	for _, l := range f.links {
		l.forget(process)
	}
}

// Crowded returns a channel that is closed once a link has passed on what it has, of those that were written to since the
// last call; nil: none has much. Who has messages made waits for that, outside of the lock, so that no program makes more
// of them than others read. Who has none made does not wait for a run that is stopped.
func (f *Far) Crowded() <-chan struct{} {
	l := f.full
	f.full = nil
	if l == nil {
		return nil
	}
	return l.passed
}

// Links is how many other brokers there are.
func (f *Far) Links() int { return len(f.links) }

// add adds a link with a broker whose LIDs and GIDs no other has.
func (f *Far) add(l *link) bool {
	if f.ended {
		return false
	}
	taken := map[[16]byte]bool{}
	for _, a := range f.o.Own {
		taken[a.GID] = true
	}
	for _, other := range f.links {
		for _, a := range other.ports {
			taken[a.GID] = true
		}
	}
	for _, a := range l.ports {
		if f.own(a.LID) || f.link(a.LID) != nil || taken[a.GID] {
			return false
		}
		taken[a.GID] = true
	}
	f.links = append(f.links, l)
	slices.SortFunc(f.links, func(a, b *link) int { return cmp.Compare(a.ports[0].LID, b.ports[0].LID) })
	for m := range f.joined {
		l.send(kindMember, nil, member{In: 1, LID: m.LID, Number: m.Number, GID: m.GID})
	}
	for listener := range f.listeners {
		l.announce(listener, true)
	}
	return true
}

// End ends all links, and waits for that. It is called without the lock.
func (f *Far) End() {
	f.o.Host.Lock()
	f.ended = true
	for c := range f.conns {
		c.Close()
	}
	f.o.Host.Unlock()
	f.serving.Wait()
}
