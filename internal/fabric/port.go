package fabric

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// port is one guest's.
type port struct {
	f        *Fabric
	rank     int
	index    int // on this host
	guest    io.WriteCloser
	out      *outbox // nil where the host has one guest only
	done     chan struct{}
	once     sync.Once
	from, to Counter
	answered atomic.Int64 // questions for addresses, by the switch itself
}

func (f *Fabric) newPort(rank int) (*port, error) {
	if rank < 0 || f.place.hostOf(rank) != f.place.Host {
		return nil, fmt.Errorf("guest %d is not on host %d", rank, f.place.Host)
	}
	p := &port{f: f, rank: rank, index: rank - f.place.First(f.place.Host), done: make(chan struct{})}
	if f.place.Guests > 1 {
		p.out = newOutbox(f.store)
	}
	return p, nil
}

func (p *port) close() {
	p.once.Do(func() {
		close(p.done)
		p.guest.Close()
	})
}

// read takes the guest's frames from a socket until it closes.
func (p *port) read(c net.Conn) {
	buf := make([]byte, maxFrame+1)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		p.take(buf[:n])
	}
}

// take deals with a frame of the guest's.
func (p *port) take(frame []byte) {
	header := p.f.header
	if len(frame) < header+ethernetHeader || len(frame) > maxFrame {
		p.from.Dropped.Add(1)
		return
	}
	p.from.add(len(frame) - header)
	if answer := answerARP(frame[header:], p.rank); answer != nil {
		p.answered.Add(1)
		p.put(append(make([]byte, header, header+len(answer)), answer...)) // one that is lost is asked for again
		return
	}
	p.f.forward(frame, byPort(p.index))
}

// deliver gives the guest a frame. A guest that is alone on its host and takes
// nothing holds up its own links only; what it is sent then waits, and is
// dropped, at the senders. Where there are others, it has a queue of its own,
// so that nobody is in anybody's way.
func (p *port) deliver(frame []byte) {
	if p.out == nil {
		p.put(frame)
	} else if !p.out.add(frame) {
		p.to.Dropped.Add(1)
	}
}

func (p *port) put(frame []byte) {
	if _, err := p.guest.Write(frame); err != nil {
		p.to.Dropped.Add(1)
		return
	}
	p.to.add(len(frame) - p.f.header)
}

// write gives the guest what waits for it.
func (p *port) write() {
	defer p.out.close()
	for {
		select {
		case <-p.out.wake:
		case <-p.done:
			return
		}
		p.out.drain(p.putAll) //nolint:errcheck // what is lost is counted
	}
}

func (p *port) putAll(frames []byte) error {
	for len(frames) > 0 {
		n := int(binary.BigEndian.Uint32(frames))
		p.put(frames[lengthSize : lengthSize+n])
		frames = frames[lengthSize+n:]
	}
	return nil
}
