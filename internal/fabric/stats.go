package fabric

// Peer is one link's part of Stats.
type Peer struct {
	// Rank is that of the first guest of the host at the other end.
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
	// Rank is that of the host's first guest; the counts are of all its
	// Guests together.
	Rank        int    `json:"rank"`
	Guests      int    `json:"guests"`
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
	s := Stats{Rank: f.place.First(f.place.Host), Dropped: f.unheard.Load()}
	for i := range f.ports {
		p := f.ports[i].Load()
		if p == nil {
			continue
		}
		s.Guests++
		s.FromFrames += p.from.Frames.Load()
		s.FromBytes += p.from.Bytes.Load()
		s.ToFrames += p.to.Frames.Load()
		s.ToBytes += p.to.Bytes.Load()
		s.Dropped += p.to.Dropped.Load() + p.from.Dropped.Load()
		s.ARPAnswered += p.answered.Load()
	}
	for host := range f.links {
		if host == f.place.Host {
			continue
		}
		p := Peer{Rank: f.place.First(host)}
		if l := f.links[host].Load(); l != nil {
			p.Up = true
			p.SentFrames, p.SentBytes, p.Dropped = l.sent.Frames.Load(), l.sent.Bytes.Load(), l.sent.Dropped.Load()
			p.ReceivedFrames, p.ReceivedBytes = l.received.Frames.Load(), l.received.Bytes.Load()
		}
		s.Peers = append(s.Peers, p)
	}
	return s
}
