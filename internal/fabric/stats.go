package fabric

import (
	"sync/atomic"
	"time"
)

// Counter counts frames and their bytes, and what did not get through.
type Counter struct {
	frames, bytes rated
	Dropped       atomic.Int64
}

func (c *Counter) add(frames, bytes int) {
	c.frames.Add(int64(frames))
	c.bytes.Add(int64(bytes))
}

func (c *Counter) rate(took time.Duration) {
	c.frames.rate(took)
	c.bytes.rate(took)
}

// rated is a count of which one knows how quickly it grew in the last second.
type rated struct {
	atomic.Int64
	before    int64
	perSecond atomic.Int64
}

func (r *rated) rate(took time.Duration) {
	now := r.Load()
	r.perSecond.Store(int64(float64(now-r.before) / took.Seconds()))
	r.before = now
}

// rate finds out what passed since the last time.
func (f *Fabric) rate(took time.Duration) {
	for _, c := range f.counters() {
		c.rate(took)
	}
}

func (f *Fabric) counters() []*Counter {
	var all []*Counter
	for i := range f.ports {
		if p := f.ports[i].Load(); p != nil {
			all = append(all, &p.from, &p.to)
		}
	}
	for _, k := range f.peers {
		if k != nil {
			all = append(all, &k.sent, &k.received)
		}
	}
	return all
}

// Peer is one link's part of Stats.
type Peer struct {
	// Rank is that of the first guest of the host at the other end.
	Rank int  `json:"rank"`
	Up   bool `json:"up"`
	// Connections are those of now.
	Connections int `json:"connections"`
	// Unencrypted is how many of them are in clear.
	Unencrypted int `json:"unencrypted"`
	// Frames and bytes sent and received, over all connections that the link
	// has had, and what was dropped because it was slower than the guests, or
	// not there.
	SentFrames              int64 `json:"sent_frames"`
	SentBytes               int64 `json:"sent_bytes"`
	SentFramesPerSecond     int64 `json:"sent_frames_per_second"`
	SentBytesPerSecond      int64 `json:"sent_bytes_per_second"`
	Dropped                 int64 `json:"dropped"`
	ReceivedFrames          int64 `json:"received_frames"`
	ReceivedBytes           int64 `json:"received_bytes"`
	ReceivedFramesPerSecond int64 `json:"received_frames_per_second"`
	ReceivedBytesPerSecond  int64 `json:"received_bytes_per_second"`
}

// Traffic is what passed between a switch and its guests.
type Traffic struct {
	FromFrames          int64 `json:"from_guest_frames"`
	FromBytes           int64 `json:"from_guest_bytes"`
	FromFramesPerSecond int64 `json:"from_guest_frames_per_second"`
	FromBytesPerSecond  int64 `json:"from_guest_bytes_per_second"`
	ToFrames            int64 `json:"to_guest_frames"`
	ToBytes             int64 `json:"to_guest_bytes"`
	ToFramesPerSecond   int64 `json:"to_guest_frames_per_second"`
	ToBytesPerSecond    int64 `json:"to_guest_bytes_per_second"`
	Dropped             int64 `json:"dropped"`
	ARPAnswered         int64 `json:"arp_answered"`
}

// count adds what passed a port.
func (t *Traffic) count(p *port) {
	t.FromFrames += p.from.frames.Load()
	t.FromBytes += p.from.bytes.Load()
	t.FromFramesPerSecond += p.from.frames.perSecond.Load()
	t.FromBytesPerSecond += p.from.bytes.perSecond.Load()
	t.ToFrames += p.to.frames.Load()
	t.ToBytes += p.to.bytes.Load()
	t.ToFramesPerSecond += p.to.frames.perSecond.Load()
	t.ToBytesPerSecond += p.to.bytes.perSecond.Load()
	t.Dropped += p.to.Dropped.Load() + p.from.Dropped.Load()
	t.ARPAnswered += p.answered.Load()
}

// Port is one guest's part of Stats.
type Port struct {
	Rank int `json:"rank"`
	Traffic
}

// Stats is what has passed this host's switch. Rates are those of the last second.
type Stats struct {
	// Rank is that of the host's first guest.
	Rank   int `json:"rank"`
	Guests int `json:"guests"`
	// Traffic is that of all ports together; what was dropped has also the
	// frames for guests that were not there (yet).
	Traffic
	Ports []Port `json:"ports"`
	Peers []Peer `json:"peers"`
}

// Stats gives the counts up to now.
func (f *Fabric) Stats() Stats {
	s := Stats{Rank: f.place.First(f.place.Host), Ports: []Port{}, Peers: []Peer{}}
	s.Dropped = f.unheard.Load()
	for i := range f.ports {
		p := f.ports[i].Load()
		if p == nil {
			continue
		}
		one := Port{Rank: p.rank}
		one.count(p)
		s.count(p)
		s.Ports = append(s.Ports, one)
	}
	s.Guests = len(s.Ports)
	for host, p := range f.peers {
		if p == nil {
			continue
		}
		conns := p.count()
		s.Peers = append(s.Peers, Peer{
			Rank: f.place.First(host), Up: conns > 0, Connections: conns, Unencrypted: p.inClear(), Dropped: p.sent.Dropped.Load(),
			SentFrames: p.sent.frames.Load(), SentBytes: p.sent.bytes.Load(),
			SentFramesPerSecond: p.sent.frames.perSecond.Load(), SentBytesPerSecond: p.sent.bytes.perSecond.Load(),
			ReceivedFrames: p.received.frames.Load(), ReceivedBytes: p.received.bytes.Load(),
			ReceivedFramesPerSecond: p.received.frames.perSecond.Load(), ReceivedBytesPerSecond: p.received.bytes.perSecond.Load(),
		})
	}
	return s
}
