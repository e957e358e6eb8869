package broker

import (
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// pairName names a connection by the numbers of its queue pairs, the lower one first.
type pairName struct{ low, high uint32 }

// pair is the connection of two queue pairs, or of one with itself. Either may come first.
type pair struct {
	name  pairName
	rings Segment
	// sides are the queue pairs that have connected, the one with the lower number first.
	sides [2]*queuePair
}

// Connection is that of a queue pair.
type Connection struct {
	Rings  Segment
	TX, RX uint8 // which ring it writes and reads
	Far    bool  // the broker stands for the other side, which is on another machine
	// Peer is the process of the other side; nil: it has not connected yet.
	Peer       Process
	PeerNumber uint32 // of the process
	PeerSlot   uint32 // of the queue pair
}

// Connect returns the connection of a queue pair to the destination of RTR.
func (s *Session) Connect(handle uint32) (Connection, error) {
	o, err := s.find(handle, message.KindQP)
	if err != nil {
		return Connection{}, err
	}
	q := o.qp
	if q.kind == Datagram || !q.state.connected() {
		return Connection{}, syscall.EINVAL
	}
	if q.far != nil || q.pair == nil && s.node.broker.isFar(q.lid, q.global, q.gid) {
		return q.connectFar()
	}
	if q.pair == nil {
		if err := q.connect(); err != nil {
			return Connection{}, err
		}
	}
	c := Connection{Rings: q.pair.rings, TX: q.side(), RX: 1 - q.side()}
	if q.pair.name.low == q.pair.name.high {
		c.RX = c.TX
	}
	if p := q.peer(); p != nil {
		c.Peer, c.PeerNumber, c.PeerSlot = p.session.process, p.session.Number, p.slot
	}
	return c, nil
}

// side is the index of a queue pair in its pair.
func (q *queuePair) side() uint8 {
	if q.number > q.destination {
		return 1
	}
	return 0
}

// connect makes a queue pair a side of its pair, which it makes if it is the first.
func (q *queuePair) connect() error {
	b := q.session.node.broker
	name := pairName{min(q.number, q.destination), max(q.number, q.destination)}
	p := b.pairs[name] // without this queue pair, and no side has left it: see disconnect
	if p == nil {
		rings, err := b.memory.New(message.PairBytes)
		if err != nil {
			return err
		}
		p = &pair{name: name, rings: rings}
		b.pairs[name] = p
	}
	p.sides[q.side()] = q
	q.pair = p
	if peer := q.peer(); peer != nil {
		peer.session.process.Wake() // its first requests may wait for this
	}
	return nil
}

// peer is the other side, once each names the other; nil: there is none.
func (q *queuePair) peer() *queuePair {
	if q.pair == nil {
		return nil
	}
	if q.number == q.destination {
		if q.names(q) {
			return q
		}
		return nil
	}
	p := q.pair.sides[1-q.side()]
	if p == nil || p.kind != q.kind || !p.names(q) || !q.names(p) {
		return nil
	}
	return p
}

// names reports whether the address of a queue pair is that of the other's node.
func (q *queuePair) names(other *queuePair) bool {
	return q.session.node.broker.find(q.lid, q.global, q.gid) == other.session.node
}

// disconnect ends what a queue pair is a side of. The other side keeps the rings, alone:
// after a reset, both sides connect again.
func (q *queuePair) disconnect() {
	if q.far != nil {
		q.far.Close()
		q.far = nil
	}
	p := q.pair
	if p == nil {
		return
	}
	peer := q.peer()
	p.sides[q.side()] = nil
	q.pair = nil
	if b := q.session.node.broker; b.pairs[p.name] == p {
		delete(b.pairs, p.name)
	}
	if p.sides == [2]*queuePair{} {
		p.rings.Close()
	}
	if peer != nil && peer != q {
		peer.session.process.Wake() // requests that wait will not be carried out
	}
}

// abandon fails the peer of a queue pair, the process of which has ended.
func (q *queuePair) abandon() {
	if q.far != nil {
		q.far.Fail(EventQPFatal)
	}
	if p := q.peer(); p != nil && p != q {
		p.fail(Failed, EventQPFatal)
	}
}

// fail moves a queue pair to an error state, with an event unless that is negative.
func (q *queuePair) fail(to State, event int32) {
	if q.state == Failed {
		return
	}
	q.state = to
	q.publish()
	if event >= 0 {
		q.session.process.Event(uint32(event), q.handle)
	}
	q.session.process.Wake()
}

// OfQP reports whether the handle of an event is that of a queue pair; -1 is no event.
func OfQP(event int32) bool {
	return event == -1 || event >= EventQPFatal && event <= EventQPAccess
}

// FailQP moves a queue pair to error, and its peer if the request says so.
func (s *Session) FailQP(r *message.FailQP) error {
	o, err := s.find(r.Handle, message.KindQP)
	if err != nil {
		return err
	}
	q := o.qp
	if !q.state.connected() && q.state != Failed || !OfQP(r.Event) || !OfQP(r.PeerEvent) {
		return syscall.EINVAL
	}
	to := Failed
	if r.SQE != 0 {
		if to = SendError; q.kind == Reliable || q.state != ReadyToSend {
			return syscall.EINVAL
		}
	}
	if p := q.peer(); p != nil && p != q && r.Peer != 0 && p.state.connected() {
		p.fail(Failed, r.PeerEvent)
	}
	if q.far != nil && r.Peer != 0 {
		q.far.Fail(r.PeerEvent)
	}
	q.fail(to, r.Event)
	if p := q.peer(); p != nil && p != q {
		p.session.process.Wake()
	}
	return nil
}
