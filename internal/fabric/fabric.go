// Package fabric is the layer-2 network between the guests of a run: one
// user-space switch on each host, with a port for each of its guests and a link
// to every other host's switch. Frames between guests of two hosts pass two
// switches and no guest; those between guests of one host pass one switch only;
// a frame that came by a link never leaves by one, so there are no loops. It
// knows frames, sockets and connections, and nothing of hypervisors, nodes or
// how connections are made.
package fabric

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric/loop"
	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

// Place is where a switch stands: which host's it is, of how many, and how many
// guests a host has at most. Guests are ranked host by host.
type Place struct{ Host, Hosts, Guests int }

// hostOf gives the host of a rank's guest.
func (p Place) hostOf(rank int) int { return rank / p.Guests }

// First is the rank of a host's first guest.
func (p Place) First(host int) int { return host * p.Guests }

// Ways in which guests are attached to their switch.
const (
	// Rings are those of the guest's network device, in memory that the switch
	// maps: see package vhost. Checksums and segments are left to be made by
	// whom a frame leaves the fabric, which is nobody.
	Rings = "vhost"
	// Sockets are datagram sockets of the hypervisor's, a frame each.
	Sockets = "socket"
)

// Fabric is this host's switch.
type Fabric struct {
	kind  string
	place Place
	// header precedes each frame, in bytes: what guests leave to be done.
	header int
	// crowded means that a guest which takes nothing would hold up others: those
	// of its host, or those whose frames pass through.
	crowded bool
	log     *slog.Logger

	peers []*link                // by host; nil for those that this one is not linked to
	ports []atomic.Pointer[port] // of this host's guests

	store   *store  // for what waits
	buffers buffers // for what comes by links
	loop    loop.Loop

	mu      sync.Mutex
	closed  bool
	done    chan struct{} // closed with it
	learned sync.Map      // mac to way: addresses that are not a guest's own
	count   atomic.Int32
	unheard atomic.Int64 // frames for guests that are not there (yet)
}

// route is where a frame comes from or goes to: the number of a host's link, or
// the complement of a port's.
type route int

func byPort(i int) route { return route(-1 - i) }

// New makes the switch of a host in a fabric of some kind, whose guests are all
// attached in the same way. Close ends it.
func New(kind, attached string, place Place, log *slog.Logger) *Fabric {
	header := 0
	if attached == Rings {
		header = vhost.HeaderSize
	}
	linked := neighbours(kind, place.Host, place.Hosts)
	f := &Fabric{
		kind: kind, header: header, place: place, log: log,
		crowded: place.Guests > 1 || passes(kind) && len(linked) > 1,
		peers:   make([]*link, place.Hosts), ports: make([]atomic.Pointer[port], place.Guests),
		store: &store{}, done: make(chan struct{}),
	}
	for _, host := range linked {
		f.peers[host] = newLink(f, host)
	}
	go f.tend()
	return f
}

// socketBuffer is asked for; the system may grant less.
const socketBuffer = 4 << 20

// AttachRings makes the port of a rank's guest, which is on this host and whose
// hypervisor connects to a listener of Unix sockets.
func (f *Fabric) AttachRings(rank int, l net.Listener) error {
	p, err := f.newPort(rank)
	if err != nil {
		l.Close()
		return err
	}
	p.guest = rings{vhost.Serve(l, &f.loop, f.log, p.takeAll())}
	return f.add(p)
}

// Attach makes the port of a rank's guest, which is on this host, and gives the
// end that the hypervisor gets: a datagram socket, one frame a datagram.
func (f *Fabric) Attach(rank int) (*os.File, error) {
	p, err := f.newPort(rank)
	if err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		for option, forced := range map[int]int{unix.SO_SNDBUF: unix.SO_SNDBUFFORCE, unix.SO_RCVBUF: unix.SO_RCVBUFFORCE} {
			if unix.SetsockoptInt(fd, unix.SOL_SOCKET, forced, socketBuffer) != nil {
				core.BestEffort(unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, socketBuffer)) // then it is what it is
			}
		}
	}
	own := os.NewFile(uintptr(fds[0]), "fabric")
	defer own.Close()
	theirs := os.NewFile(uintptr(fds[1]), "fabric guest")
	d, err := newDatagrams(own)
	if err != nil {
		theirs.Close()
		return nil, err
	}
	p.guest = d
	if err := f.add(p); err != nil {
		theirs.Close()
		return nil, err
	}
	go d.receive(p.takeAll())
	return theirs, nil
}

// add has a port take part.
func (f *Fabric) add(p *port) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.ports[p.index].Load() != nil {
		p.close()
		return errors.New("the fabric has that guest already, or is closed")
	}
	least := leastChunks
	if !f.crowded { // what comes is not read any more before it has much
		least = queueLimit / chunkSize
	}
	p.out = newOutbox(f.store, least)
	go p.write()
	f.ports[p.index].Store(p)
	return nil
}

// tend manages all connections at each beat, and once a second finds out what passed, and
// whether links want more connections, until the switch is closed.
func (f *Fabric) tend() {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	last, counted := time.Now(), time.Now()
	for {
		select {
		case <-ticker.C:
		case <-f.done:
			return
		}
		now := time.Now()
		stopped, second := now.Sub(last) > 2*beat, now.Sub(counted) >= time.Second
		last = now
		for _, k := range f.peers {
			if k == nil {
				continue
			}
			for _, l := range k.all() {
				l.tend(stopped)
			}
			if second {
				k.look()
			}
		}
		if second {
			f.rate(now.Sub(counted))
			counted = now
		}
	}
}

// Close ends all links and ports.
func (f *Fabric) Close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.done)
	}
	f.mu.Unlock()
	for i := range f.ports {
		if p := f.ports[i].Load(); p != nil {
			p.close()
		}
	}
	for _, k := range f.peers {
		if k != nil {
			k.close()
		}
	}
	f.loop.Close()
}

// hostName names a host by its first node, for people.
func (f *Fabric) hostName(host int) string { return "node " + strconv.Itoa(f.place.First(host)) }
