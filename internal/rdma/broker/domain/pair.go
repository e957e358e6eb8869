package domain

import (
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// name names a connection by its queue pairs' numbers.
type name struct{ own, other uint32 }

// about is how messages to the other broker name it.
func (n name) about() about { return about{Own: n.own, Other: n.other} }

// name is the connection that a message of the other broker names.
func (a about) name() name { return name{own: a.Other, other: a.Own} }

// pair is the connection of a queue pair with one of another broker. It implements broker.FarPair.
type pair struct {
	link *link
	end  broker.End
	name name
	to   uint16 // LID of the other side
	// low: this side has the lower LID. It makes the rings, so that both have the same ones.
	low    bool
	serial uint32
	rings  broker.Segment // nil: they are to come
	came   chan struct{}  // closed once they are there, or never come
	// process is that of the other side, nil while that has not connected or after it has left; slot is the queue pair's
	// in its table.
	process Process
	slot    uint32
	failed  bool // the other side was asked to fail
}

// early is a queue pair of the other side that has connected before that of this one.
type early struct {
	connect
	process Process
	rings   broker.Segment // those it was given; nil: it makes them
}

func (e *early) close() {
	if e.rings != nil {
		e.rings.Close()
		e.rings = nil
	}
}

// mostEarly is how many queue pairs of the other side may wait for theirs here.
const mostEarly = 1 << 16

// newPair begins the connection of a queue pair with its destination.
func (l *link) newPair(e broker.End, to uint16) (broker.FarPair, error) {
	l.serial++
	p := &pair{link: l, end: e, name: name{e.Number(), e.Destination()}, to: to, low: e.Address().LID < to, serial: l.serial, came: make(chan struct{})}
	waits := l.early[p.name]
	if waits != nil && !p.fits(waits) {
		waits = nil
	}
	if p.low {
		if waits != nil {
			p.rings, waits.rings = waits.rings, nil
		} else {
			var err error
			if p.rings, err = l.far.o.Host.NewSegment(message.PairBytes); err != nil {
				return nil, err
			}
		}
		p.ready()
	}
	l.pairs[p.name] = p
	l.introduce(e.ProcessNumber(), e.Process())
	l.send(kindConnect, nil, connect{
		about: p.name.about(), From: e.Address().LID, To: to, Kind: uint32(e.Kind()), Slot: e.Slot(), Process: e.ProcessNumber(), Serial: p.serial,
	})
	if waits != nil {
		delete(l.early, p.name)
		p.establish(waits)
	}
	return p, nil
}

// fits reports whether both sides name each other.
func (p *pair) fits(e *early) bool {
	return e.From == p.to && e.To == p.end.Address().LID && broker.Type(e.Kind) == p.end.Kind()
}

func (p *pair) establish(e *early) {
	p.process, p.slot = e.process, e.Slot
	p.end.Process().Wake()
}

// Rings implements broker.FarPair.
func (p *pair) Rings() (broker.Rings, error) {
	if p.rings == nil {
		select {
		case <-p.came: // the other side has left, or its broker has ended
			return broker.Rings{}, syscall.ENOTCONN
		default:
			return broker.Rings{}, p.link.pending(p.came)
		}
	}
	if p.low {
		return broker.Rings{Segment: p.rings, TX: 0, RX: 1}, nil
	}
	return broker.Rings{Segment: p.rings, TX: 1, RX: 0}, nil
}

// Peer implements broker.FarPair.
func (p *pair) Peer() (broker.Process, uint32, uint32) {
	if p.process == nil {
		return nil, 0, 0
	}
	return p.process, p.process.Number(), p.slot
}

// Resolve implements broker.FarPair.
func (p *pair) Resolve(key uint32) (broker.Resolution, error) {
	if p.process == nil {
		return broker.Resolution{}, syscall.ENOTCONN
	}
	return p.link.resolve(p.name, key)
}

// State implements broker.FarPair. The other side reads the state itself.
func (p *pair) State(broker.State) {
	if p.process != nil {
		p.process.Wake()
	}
}

// Fail implements broker.FarPair. A queue pair fails once.
func (p *pair) Fail(event int32) {
	if p.process != nil && !p.failed {
		p.failed = true
		p.link.send(kindFail, nil, fail{p.name.about(), event})
	}
}

// Close implements broker.FarPair. The other side keeps the rings, alone: after a reset both sides connect again.
func (p *pair) Close() {
	l := p.link
	if l.pairs[p.name] == p {
		delete(l.pairs, p.name)
		l.send(kindGone, nil, p.name.about())
	}
	p.process = nil
	p.ready()
	if p.rings != nil {
		p.rings.Close()
		p.rings = nil
	}
}

// ready ends the wait for the rings.
func (p *pair) ready() {
	select {
	case <-p.came:
	default:
		close(p.came)
	}
}

// gone notes that the other side has left. That learns that it is known, as it may just have heard of this one: that is
// void for its next connection.
func (p *pair) gone() {
	if p.link.pairs[p.name] == p {
		delete(p.link.pairs, p.name)
		p.link.send(kindGone, nil, p.name.about())
	}
	p.process = nil
	p.ready()
	p.end.Process().Wake() // requests that wait will not be carried out
}

// lost fails the queue pair, as the other broker has ended. One that waits for its rings never gets them.
func (p *pair) lost() {
	if p.process != nil || p.rings == nil {
		p.end.Fail(broker.EventQPFatal)
	}
	p.gone()
}

func (l *link) takeConnect(raw []byte) error {
	var m connect
	if whole(raw, &m) != nil || m.Slot >= message.Slots || l.processes[m.Process] == nil {
		return errMessage
	}
	if _, is := l.port(m.From); !is || !l.far.own(m.To) {
		return errMessage
	}
	e := &early{connect: m, process: l.processes[m.Process]}
	n := m.name()
	p := l.pairs[n]
	if p != nil && p.process == nil && p.fits(e) {
		if p.low {
			if err := l.sendRings(n, m.Serial, p.rings); err != nil {
				return err
			}
		}
		p.establish(e)
		return nil
	}
	if l.early[n] != nil || len(l.early) == mostEarly {
		return errMessage
	}
	if m.To < m.From {
		var err error
		if e.rings, err = l.far.o.Host.NewSegment(message.PairBytes); err != nil {
			return err
		}
		if err := l.sendRings(n, m.Serial, e.rings); err != nil {
			e.close()
			return err
		}
	}
	l.early[n] = e
	return nil
}

func (l *link) sendRings(n name, serial uint32, s broker.Segment) error {
	fd, err := l.far.o.Host.Descriptor(s, false)
	if err == nil {
		l.send(kindRings, []int{fd}, rings{n.about(), serial})
	}
	return err
}

func (l *link) takeRings(raw []byte, d *passed) error {
	var m rings
	if whole(raw, &m) != nil {
		return errMessage
	}
	p := l.pairs[m.name()]
	if p == nil || p.low || p.rings != nil || p.serial != m.Serial { // of a connection before
		return nil
	}
	fds, is := d.take(1)
	if !is {
		return errMessage
	}
	s, err := l.far.o.Host.Segment(fds[0], message.PairBytes)
	if err != nil {
		return err
	}
	p.rings = s
	p.ready()
	p.end.Process().Wake()
	return nil
}

func (l *link) takeFail(raw []byte) error {
	var m fail
	if whole(raw, &m) != nil || !broker.OfQP(m.Event) { // the program would take the queue pair for something else
		return errMessage
	}
	if p := l.pairs[m.name()]; p != nil && p.process != nil {
		p.end.Fail(m.Event)
	}
	return nil
}

func (l *link) takeGone(raw []byte) error {
	var m about
	if whole(raw, &m) != nil {
		return errMessage
	}
	n := m.name()
	if e := l.early[n]; e != nil {
		e.close()
		delete(l.early, n)
	} else if p := l.pairs[n]; p != nil && p.process != nil {
		p.gone()
	}
	return nil
}
