package fabric

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

// port is one guest's.
type port struct {
	f        *Fabric
	rank     int
	index    int // on this host
	guest    device
	out      *outbox // what it has no room for at once
	done     chan struct{}
	once     sync.Once
	from, to Counter
	answered atomic.Int64 // questions for addresses, by the switch itself
}

// device is a guest's, to which a port leads.
type device interface {
	io.Closer
	// give sends frames, waiting for room, and reports how many it did and their
	// bytes.
	give(*batch) (frames, bytes int)
	// offer sends the first ones, as far as that can be done at once.
	offer(*batch) (frames, bytes int)
}

// rings are a guest whose memory the switch has mapped.
type rings struct{ *vhost.Device }

func (r rings) give(b *batch) (frames, bytes int)  { return r.Give(b.frames) }
func (r rings) offer(b *batch) (frames, bytes int) { return r.Offer(b.frames) }

func (f *Fabric) newPort(rank int) (*port, error) {
	if rank < 0 || f.place.hostOf(rank) != f.place.Host {
		return nil, fmt.Errorf("guest %d is not on host %d", rank, f.place.Host)
	}
	return &port{f: f, rank: rank, index: rank - f.place.First(f.place.Host), done: make(chan struct{})}, nil
}

// alone gives the port of a guest that is alone on its host, for which all comes that
// comes by links.
func (f *Fabric) alone() *port {
	if f.crowded {
		return nil
	}
	return f.ports[0].Load()
}

func (p *port) close() {
	p.once.Do(func() {
		close(p.done)
		p.guest.Close()
	})
}

// takeAll gives what deals with frames of the guest's that come at once.
func (p *port) takeAll() func(frames []vhost.Frame) {
	b := &burst{f: p.f, from: byPort(p.index), toGuest: newBatch()}
	return func(frames []vhost.Frame) {
		for _, f := range frames {
			p.take(b, f)
		}
		b.through()
	}
}

// take deals with a frame of the guest's.
func (p *port) take(b *burst, f vhost.Frame) {
	header, size := p.f.header, f.Len()
	if len(f.Head) < header+ethernetHeader || size > maxFrame {
		p.from.Dropped.Add(1)
		return
	}
	p.from.add(1, size-header)
	if answer := answerARP(f.Head[header:], p.rank); answer != nil {
		p.answered.Add(1)
		b.give(p.index, vhost.Frame{Head: append(make([]byte, header), answer...)})
		return
	}
	b.forward(f)
}

// put gives the guest a batch, which is empty then.
func (p *port) put(b *batch) {
	frames, bytes := p.guest.give(b)
	p.to.add(frames, bytes-frames*p.f.header)
	p.to.Dropped.Add(int64(len(b.frames) - frames))
	b.frames = b.frames[:0]
}

// offer gives the guest a batch, which is empty then, as far as it has room and
// nothing waits for it; the rest waits.
func (p *port) offer(b *batch) {
	given, bytes := 0, 0
	if p.out.idle() {
		given, bytes = p.guest.offer(b)
		p.to.add(given, bytes-given*p.f.header)
	}
	for _, f := range b.frames[given:] {
		ok, first := p.out.add(f)
		if !ok {
			p.to.Dropped.Add(1)
		}
		if first {
			p.out.rouse()
		}
	}
	b.frames = b.frames[:0]
}

// write gives the guest what waits for it.
func (p *port) write() {
	defer p.out.close()
	b := newBatch()
	for {
		select {
		case <-p.out.wake:
		case <-p.done:
			return
		}
		p.out.drain(func(frames []byte) error { //nolint:errcheck // what is lost is counted
			for len(frames) > 0 {
				n := int(binary.BigEndian.Uint32(frames))
				if !b.add(vhost.Frame{Head: frames[lengthSize:][:n]}) {
					p.put(b)
				}
				frames = frames[lengthSize+n:]
			}
			if len(b.frames) > 0 {
				p.put(b)
			}
			return nil
		})
	}
}
