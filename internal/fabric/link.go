package fabric

import (
	"errors"
	"fmt"
	"math/bits"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

// Bounds of a link's connections.
const (
	// MostConnections is how many connections a link has at most.
	MostConnections = 4
	// mostConnections is how many a host has with all others before its links get
	// one each: each takes some 200 KiB of memory at either end.
	mostConnections = 32
	// longRoute is a round trip for which the window of one connection, or a packet
	// that is lost on it, may be what bounds a link.
	longRoute = time.Millisecond
	// coresForConnection are what either end needs for a connection more on a shorter
	// way: there it is the processor that bounds one, which encrypts on one core.
	coresForConnection = 2
)

// link is the route to another host's switch: connections, among which
// flows are divided, so that the frames of each stay in order. It is up while it has
// one.
type link struct {
	f              *Fabric
	host           int           // at the other end
	most           int           // connections
	sent, received Counter       // over all connections that there were
	delayed        atomic.Uint64 // flows, by their buckets, that had to wait behind much in the last second
	asked          atomic.Bool   // by the other end, for another connection
	wanted         chan int

	mu     sync.RWMutex // frames are added to connections with it held for reading
	conns  [MostConnections]*Connection
	routes [buckets]*Connection // those of flows; nil while there is no connection
	want   int                  // connections
	trip   time.Duration        // the quickest; 0: not known yet
	// Eras count the connections that there were in each place. The other end is notified of
	// ours, and forwards nothing any more that comes by a connection of an earlier one.
	eras, theirs [MostConnections]byte
	readers      []*Connection // connections that still forward
}

func newLink(f *Fabric, host int) *link {
	links := max(len(neighbours(f.kind, f.place.Host, f.place.Hosts)), len(neighbours(f.kind, host, f.place.Hosts)))
	k := &link{f: f, host: host, most: min(max(mostConnections/links, 1), MostConnections), wanted: make(chan int, MostConnections), want: 1}
	k.wanted <- 0
	return k
}

// Wanted gives the connections that a link to another host shall have, the first at once:
// further ones where the frames of several flows wait for long, and another one may
// help, as the way is long, or cores are free.
func (f *Fabric) Wanted(host int) <-chan int { return f.peers[host].wanted }

// Linked reports whether there is a way to another host's switch.
func (f *Fabric) Linked(host int) bool { return f.peers[host].count() > 0 }

func (k *link) count() int { return len(k.all()) }

// inClear is how many connections are not encrypted.
func (k *link) inClear() (n int) {
	for _, l := range k.all() {
		if l.clear {
			n++
		}
	}
	return n
}

func (k *link) living() (n int) {
	for _, l := range k.conns {
		if l != nil {
			n++
		}
	}
	return n
}

// Link uses an established connection to another host's switch as one of its link, in place
// of an earlier one, until it breaks or is silent for too long.
func (f *Fabric) Link(host, slot int, c net.Conn) (*Connection, error) {
	if host < 0 || host >= len(f.peers) || f.peers[host] == nil || slot < 0 || slot >= MostConnections {
		return nil, fmt.Errorf("connection %d of the link to host %d: there is none", slot, host)
	}
	if t, ok := c.(interface{ SetNoDelay(nodelay bool) error }); ok {
		core.BestEffort(t.SetNoDelay(true)) // it is the default
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.New("the fabric is closed")
	}
	k := f.peers[host]
	l, err := newConnection(k, slot, c)
	if err != nil {
		return nil, err
	}
	k.add(l)
	l.begin()
	return l, nil
}

// add has a connection take its part of the flows. It begins to send when all connections, from
// which it takes them, have delivered what they were given before.
func (k *link) add(l *Connection) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.conns[l.slot]
	if k.conns[l.slot] = nil; old != nil {
		k.eras[l.slot]++
		k.report()
		go old.fail(net.ErrClosed)
	}
	k.readers = append(k.readers, l)
	l.out.sign(signEras, k.eras[:]...)
	for _, other := range k.conns {
		if other != nil {
			l.after.Add(1)
			other.ask(l.after.Done)
		}
	}
	k.conns[l.slot] = l
	k.deal()
	go func() { l.after.Wait(); close(l.ready) }()
}

// report has the other end know the eras before it gets what follows.
func (k *link) report() {
	for _, l := range k.conns {
		if l != nil && l.out.sign(signEras, k.eras[:]...) {
			l.out.rouse()
		}
	}
}

// awaitEras waits until connections that the other end has given up forward nothing any more,
// the frames of whose flows it now sends by l, and reports whether l is not one of them.
func (k *link) awaitEras(l *Connection, eras []byte) bool {
	over := func(slot int, era byte) bool { return int8(k.theirs[slot]-era) > 0 }
	k.mu.Lock()
	if !slices.ContainsFunc(k.readers, func(other *Connection) bool { return other != l && other.begins }) {
		copy(k.theirs[:], eras) // nothing of before is left
	}
	for slot, era := range eras {
		if !over(slot, era) {
			k.theirs[slot] = era
		}
	}
	if !l.begins {
		l.begins, l.era = true, eras[l.slot]
	}
	var gone []*Connection
	taken := !over(l.slot, l.era) // or else others may wait for it, and it must not for them
	for _, other := range k.readers {
		if taken && other != l && other.begins && over(other.slot, other.era) {
			gone = append(gone, other)
		}
	}
	k.mu.Unlock()
	for _, other := range gone {
		other.fail(errGivenUp)
	}
	return taken
}

// forget is for a connection that forwards nothing any more.
func (k *link) forget(l *Connection) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readers = slices.DeleteFunc(k.readers, func(other *Connection) bool { return other == l })
}

// drop takes a connection out, and reports whether it was the last. What it took along is
// lost; its flows continue by the others.
func (k *link) drop(l *Connection) (last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range l.asked {
		q.answered()
	}
	l.asked, l.dead = nil, true
	if k.conns[l.slot] != l {
		return false
	}
	k.conns[l.slot] = nil
	k.eras[l.slot]++
	k.report()
	k.deal()
	return k.living() == 0
}

// all gives the connections that there are.
func (k *link) all() (conns []*Connection) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, l := range k.conns {
		if l != nil {
			conns = append(conns, l)
		}
	}
	return conns
}

// close ends all connections.
func (k *link) close() {
	for _, l := range k.all() {
		l.close()
	}
}

// deal divides the flows: each goes to the connection that has the most weight for it, so
// that a connection which comes or goes moves its own flows only.
func (k *link) deal() {
	for b := range k.routes {
		var most uint64
		k.routes[b] = nil
		for slot, l := range k.conns {
			if weight := mix(uint64(b), uint64(slot)); l != nil && (k.routes[b] == nil || weight > most) {
				k.routes[b], most = l, weight
			}
		}
	}
}

// look finds out, once a second, whether the link shall have another connection.
func (k *link) look() {
	crowded := bits.OnesCount64(k.delayed.Swap(0)) > 1 // one flow has one connection
	asked := k.asked.Swap(false)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch most := k.limit(runtime.GOMAXPROCS(0)); {
	case k.host > k.f.place.Host: // it makes the connections
		if l := k.routes[0]; crowded && l != nil {
			l.wantsMore.Store(true)
		}
	case (crowded || asked) && k.want < most && k.living() == k.want:
		k.wanted <- k.want
		k.want++
	}
}

// limit is how many connections may help on a host of so many cores.
func (k *link) limit(cores int) int {
	if k.trip >= longRoute {
		return k.most
	}
	return min(k.most, max(cores/coresForConnection, 1))
}

// send queues a frame for the other host.
func (k *link) send(b *burst, frame vhost.Frame) {
	flow := bucketOf(frame.Head[k.f.header:])
	k.mu.RLock()
	l := k.routes[flow]
	sent := l != nil && b.queue(l.out, frame)
	k.mu.RUnlock()
	if sent {
		k.sent.add(1, frame.Len())
	} else {
		k.sent.Dropped.Add(1)
	}
	if bit := uint64(1) << flow; l != nil && (!sent || l.out.deep.Load()) && k.delayed.Load()&bit == 0 {
		k.delayed.Or(bit)
	}
}
