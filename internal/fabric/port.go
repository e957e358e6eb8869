package fabric

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

// port is one guest's.
type port struct {
	f        *Fabric
	rank     int
	index    int // on this host
	c        net.Conn
	out      *outbox // nil where the host has one guest only
	done     chan struct{}
	once     sync.Once
	from, to Counter
	answered atomic.Int64 // questions for addresses, by the switch itself
}

func newPort(f *Fabric, rank int, c net.Conn) *port {
	p := &port{f: f, rank: rank, index: rank - f.place.First(f.place.Host), c: c, done: make(chan struct{})}
	if f.place.Guests > 1 {
		p.out = newOutbox(f.store)
	}
	return p
}

func (p *port) start() {
	go p.read()
	if p.out != nil {
		go p.write()
	}
}

func (p *port) close() {
	p.once.Do(func() {
		close(p.done)
		p.c.Close()
	})
}

// read takes the guest's frames until the port closes.
func (p *port) read() {
	buf := make([]byte, maxFrame+1)
	for {
		n, err := p.c.Read(buf)
		if err != nil {
			return
		}
		if n < 14 || n > maxFrame {
			p.from.Dropped.Add(1)
			continue
		}
		p.from.add(n)
		frame := buf[:n]
		if answer := answerARP(frame, p.rank); answer != nil {
			p.answered.Add(1)
			p.c.Write(answer) //nolint:errcheck // it asks again
			continue
		}
		p.f.forward(frame, byPort(p.index))
	}
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
	if _, err := p.c.Write(frame); err != nil {
		p.to.Dropped.Add(1)
		return
	}
	p.to.add(len(frame))
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
		all := p.out.take()
		for rest := all; len(rest) > 0; {
			n := int(binary.BigEndian.Uint32(rest))
			p.put(rest[lengthSize : lengthSize+n])
			rest = rest[lengthSize+n:]
		}
		p.out.giveBack(all)
	}
}
