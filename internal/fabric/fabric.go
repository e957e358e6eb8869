// Package fabric is the layer-2 network between the guests of a run: one
// user-space switch on each host, with a port for the guest and a link to
// every other host's switch. Frames between guests of two hosts pass two
// switches and no guest; a frame that came by a link never leaves by one, so
// there are no loops. It knows frames, sockets and connections, and nothing of
// hypervisors, nodes or how connections are made.
package fabric

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Fabric is this host's switch.
type Fabric struct {
	kind string
	rank int
	log  *slog.Logger

	links []atomic.Pointer[Link] // by rank

	mu      sync.Mutex
	closed  bool
	port    atomic.Pointer[net.UnixConn]
	learned sync.Map // mac to rank: addresses that are not a guest's own
	count   atomic.Int32

	stats PortStats
}

// PortStats counts what passed the guest's port.
type PortStats struct {
	// From and To the guest.
	From, To Counter
	// Answered are questions for addresses that the switch answered itself.
	Answered atomic.Int64
}

// Counter counts frames and their bytes.
type Counter struct{ Frames, Bytes, Dropped atomic.Int64 }

func (c *Counter) add(n int) {
	c.Frames.Add(1)
	c.Bytes.Add(int64(n))
}

// New makes the switch of a rank's host in a fabric of some kind.
func New(kind string, rank, size int, log *slog.Logger) *Fabric {
	return &Fabric{kind: kind, rank: rank, log: log, links: make([]atomic.Pointer[Link], size)}
}

// socketBuffer is asked for; the system may grant less.
const socketBuffer = 4 << 20

// Attach makes the guest's port, and gives the end that the hypervisor gets: a
// datagram socket, one frame a datagram. There is one port.
func (f *Fabric) Attach() (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		for option, forced := range map[int]int{unix.SO_SNDBUF: unix.SO_SNDBUFFORCE, unix.SO_RCVBUF: unix.SO_RCVBUFFORCE} {
			if unix.SetsockoptInt(fd, unix.SOL_SOCKET, forced, socketBuffer) != nil {
				unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, socketBuffer) //nolint:errcheck // then it is what it is
			}
		}
	}
	own := os.NewFile(uintptr(fds[0]), "fabric")
	defer own.Close()
	theirs := os.NewFile(uintptr(fds[1]), "fabric guest")
	c, err := net.FileConn(own)
	if err != nil {
		theirs.Close()
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	port, ok := c.(*net.UnixConn)
	if f.closed || !ok || !f.port.CompareAndSwap(nil, port) {
		theirs.Close()
		c.Close()
		return nil, errors.New("the fabric has its guest already, or is closed")
	}
	go f.fromGuest(port)
	return theirs, nil
}

// Close ends all links and the port.
func (f *Fabric) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	if port := f.port.Load(); port != nil {
		port.Close()
	}
	for i := range f.links {
		if l := f.links[i].Load(); l != nil {
			l.close()
		}
	}
}

// fromGuest takes the guest's frames until the port closes.
func (f *Fabric) fromGuest(port *net.UnixConn) {
	buf := make([]byte, maxFrame+1)
	for {
		n, err := port.Read(buf)
		if err != nil {
			return
		}
		if n < 14 || n > maxFrame {
			f.stats.From.Dropped.Add(1)
			continue
		}
		f.stats.From.add(n)
		frame := buf[:n]
		if answer := answerARP(frame, f.rank); answer != nil {
			f.stats.Answered.Add(1)
			port.Write(answer) //nolint:errcheck // it asks again
			continue
		}
		f.learn(mac(frame[6:]), own)
		f.send(frame, own)
	}
}

// own stands for the guest as the one that a frame came from.
const own = -1

// send gives a frame to the links that lead to whom it is for.
func (f *Fabric) send(frame []byte, from int) {
	to := mac(frame)
	if !to.group() {
		by := -1
		if rank := to.rank(); rank >= 0 && rank < len(f.links) {
			by = next(f.kind, f.rank, rank)
		} else if known, ok := f.learned.Load(to); ok {
			by = known.(int) //nolint:forcetypeassert // only ranks are stored
		}
		if by >= 0 {
			if l := f.links[by].Load(); l != nil && by != from {
				l.queue(frame)
			}
			return
		}
	}
	for i := range f.links {
		if l := f.links[i].Load(); l != nil && i != from {
			l.queue(frame)
		}
	}
}

// maxLearned bounds the table: addresses behind a guest (bridges of docker's)
// are few, and made-up ones shall not fill the memory.
const maxLearned = 4096

// learn remembers by which link a foreign address was heard.
func (f *Fabric) learn(source mac, from int) {
	if source.rank() >= 0 || source.group() {
		return
	}
	known, ok := f.learned.Load(source)
	if ok && known == from || f.count.Load() >= maxLearned {
		return
	}
	if !ok {
		f.count.Add(1)
	}
	f.learned.Store(source, from)
}

// take deals with what came by a link.
func (f *Fabric) take(frame []byte, from int) {
	f.learn(mac(frame[6:]), from)
	here, elsewhere := f.whereTo(mac(frame))
	if elsewhere && passes(f.kind) {
		f.send(frame, from)
	}
	if here {
		f.toGuest(frame)
	}
}

// whereTo tells whether a frame is for this host's guest, and for others.
func (f *Fabric) whereTo(to mac) (here, elsewhere bool) {
	if to.group() {
		return true, true
	}
	if rank := to.rank(); rank >= 0 {
		return rank == f.rank, rank != f.rank
	}
	known, ok := f.learned.Load(to)
	return !ok || known == own, !ok || known != own
}

// toGuest gives the guest a frame.
func (f *Fabric) toGuest(frame []byte) {
	port := f.port.Load()
	if port == nil {
		f.stats.To.Dropped.Add(1)
		return
	}
	// A guest that takes nothing holds up its own links only; what it is sent
	// then waits, and is dropped, at the senders.
	if _, err := port.Write(frame); err != nil {
		f.stats.To.Dropped.Add(1)
		return
	}
	f.stats.To.add(len(frame))
}

// Peer is one link's part of Stats.
type Peer struct {
	Rank int  `json:"rank"`
	Up   bool `json:"up"`
	// Frames and bytes sent and received since the link came up, and what
	// was dropped because the link was slower than the guest.
	SentFrames     int64 `json:"sent_frames"`
	SentBytes      int64 `json:"sent_bytes"`
	Dropped        int64 `json:"dropped"`
	ReceivedFrames int64 `json:"received_frames"`
	ReceivedBytes  int64 `json:"received_bytes"`
}

// Stats is what has passed this host's switch.
type Stats struct {
	Rank        int    `json:"rank"`
	FromFrames  int64  `json:"from_guest_frames"`
	FromBytes   int64  `json:"from_guest_bytes"`
	ToFrames    int64  `json:"to_guest_frames"`
	ToBytes     int64  `json:"to_guest_bytes"`
	Dropped     int64  `json:"dropped"`
	ARPAnswered int64  `json:"arp_answered"`
	Peers       []Peer `json:"peers"`
}

// Stats gives the counts up to now.
func (f *Fabric) Stats() Stats {
	s := Stats{Rank: f.rank, FromFrames: f.stats.From.Frames.Load(), FromBytes: f.stats.From.Bytes.Load(), ToFrames: f.stats.To.Frames.Load(),
		ToBytes: f.stats.To.Bytes.Load(), Dropped: f.stats.To.Dropped.Load() + f.stats.From.Dropped.Load(), ARPAnswered: f.stats.Answered.Load()}
	for rank := range f.links {
		if rank == f.rank {
			continue
		}
		p := Peer{Rank: rank}
		if l := f.links[rank].Load(); l != nil {
			p.Up = true
			p.SentFrames, p.SentBytes, p.Dropped = l.sent.Frames.Load(), l.sent.Bytes.Load(), l.sent.Dropped.Load()
			p.ReceivedFrames, p.ReceivedBytes = l.received.Frames.Load(), l.received.Bytes.Load()
		}
		s.Peers = append(s.Peers, p)
	}
	return s
}

func rankName(rank int) string { return "node " + strconv.Itoa(rank) }
