package forward

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// window is how many bytes of entries may be on their way in one direction of a connection: with
// what fills a ring to its end, they have room in the ring of the other side.
const window = message.RingData / 2

// name names a connection by its queue pairs' numbers.
type name struct{ own, other uint32 }

// pair is a connection with a queue pair of another machine.
type pair struct {
	far  *Far
	link *link // nil: there is none yet
	end  broker.End
	name name
	rank int
	share
	tx ring.Reader // what the program writes
	rx ring.Writer // what it reads

	connected bool // both sides are
	left      bool // the other side has left
	refusing  bool // a request of the other side has failed: what follows it is not carried out
	broken    bool // a fault has ended the connection
	closed    bool // the queue pair has left it
	// last are frames that come after all entries, and lastBy when they come at the latest.
	last   []byte
	lastBy time.Time
	stated bool // a state is the last of them
	failed bool // the other side was asked to fail
	// sent and seen count bytes of entries that were sent, and that the other side has consumed;
	// received counts those that came.
	sent, seen, received uint64
	reported             seen      // what the other side knows of the program
	theirs               seen      // what the program knows of the other side
	order                []request // of the other side, that are counted
	answers              []answer  // that the other side waits for
	arriving             uint64    // bytes of a message of the other side that are to come
	// counted is the number of the program's last request that the other side counts. Of its questions, asked
	// were sent and answered are over.
	counted, asked, answered uint64
	// waits is since when the program waits for the other side in an outage; zero: it does not.
	waits time.Time
}

// seen is what the reader of a ring reports to its writer.
type seen struct {
	consumed, posted, done uint64
	status                 uint32
}

// request is one that the other side counts, in its order.
type request struct {
	number  uint64
	program bool // the program reports when it is over; else it is
	status  uint32
}

// Most that a library can have under way.
const (
	mostRequests = 2 * message.Credits
	mostAnswers  = 128
)

func newPair(f *Far, e broker.End, rank int) (*pair, error) {
	s, err := f.share(message.PairBytes)
	if err != nil {
		return nil, err
	}
	rings := ring.Pair(s.memory)
	if e.Kind() == broker.Unreliable {
		rings[0].PostShared() // the other side drops what it has no receive for
	}
	return &pair{
		far: f, end: e, name: name{e.Number(), e.Destination()}, rank: rank, share: s,
		tx: ring.Reader{Ring: rings[0]}, rx: ring.Writer{Ring: rings[1]},
	}, nil
}

// Rings implements broker.FarPair.
func (p *pair) Rings() (broker.Rings, error) {
	return broker.Rings{Segment: p.segment, TX: 0, RX: 1, Relayed: true}, nil
}

// Peer implements broker.FarPair.
func (p *pair) Peer() (broker.Process, uint32, uint32) {
	if !p.connected {
		return nil, 0, 0
	}
	return p.far.o.Peer, p.far.o.Peer.Number(), p.slot
}

// Resolve implements broker.FarPair: a key has the place that its number gives it, and the other side checks it.
func (p *pair) Resolve(key uint32) (broker.Resolution, error) {
	if !p.connected {
		return broker.Resolution{}, syscall.ENOTCONN
	}
	slot := key % message.Slots
	p.far.o.Peer.SetKey(slot, key)
	return broker.Unchecked(slot), nil
}

// lastTime is how long entries may take that precede the end of a queue pair.
const lastTime = time.Second

// State implements broker.FarPair.
func (p *pair) State(s broker.State) {
	if p.link == nil {
		return
	}
	if s == broker.Failed || len(p.last) > 0 {
		if p.stated { // it is not known there yet
			p.last[len(p.last)-1] = byte(s)
			return
		}
		out, at := about(p.last, frameState, p.name)
		p.after(append(out, byte(s)), at)
		p.stated = true
		return
	}
	out, at := about(p.link.out, frameState, p.name)
	p.link.control(append(out, byte(s)), at)
}

// Fail implements broker.FarPair. A queue pair fails once.
func (p *pair) Fail(event int32) {
	if p.link != nil && !p.failed {
		p.failed = true
		out, at := about(p.last, frameFail, p.name)
		p.after(binary.LittleEndian.AppendUint32(out, uint32(event)), at)
	}
}

// after takes a frame that comes after all entries: these were sent before.
func (p *pair) after(out []byte, at int) {
	if len(p.last) == 0 {
		p.lastBy = time.Now().Add(lastTime)
		time.AfterFunc(lastTime, p.link.kick)
	}
	p.last, p.stated = finish(out, at), false
	p.link.kick()
}

// Close implements broker.FarPair. Messages that have been sent still arrive.
func (p *pair) Close() {
	f := p.far
	p.closed = true
	f.o.Peer.SetQP(p.slot, 0, 0)
	if p.link == nil {
		f.waiting[p.rank] = slices.DeleteFunc(f.waiting[p.rank], func(o *pair) bool { return o == p })
		p.release()
		return
	}
	out, at := about(p.last, frameGone, p.name)
	p.after(out, at)
}

// release frees what the connection has.
func (p *pair) release() {
	if p.link != nil {
		p.link.remove(p)
	}
	p.connected = false
	p.far.unshare(p.share)
	p.tx.Ring, p.rx.Ring = nil, nil
}

// wake wakes the program if it sleeps.
func (p *pair) wake() {
	if !p.closed {
		p.far.o.Host.Wake(p.end.Process())
	}
}

// establish notes that the other side has connected.
func (p *pair) establish(s broker.State) {
	p.connected, p.failed = true, false // that before is no matter of this queue pair
	p.far.o.Peer.SetQP(p.slot, p.name.other, uint32(s)+1)
	p.rx.Ring.Attach()
	p.end.Process().Wake()
}

// lost notes that there is no way to the other side any more.
func (p *pair) lost() {
	p.connected, p.left = false, true
	p.far.o.Peer.SetQP(p.slot, p.name.other, uint32(broker.Failed)+1)
	p.end.Fail(broker.EventQPFatal)
}

// goneTime is how long requests are not answered before their peer counts as gone: as long as a card
// would try again, about.
const goneTime = 500 * time.Millisecond

// gone notes that the other side has left. Requests that wait for it fail after a while.
func (p *pair) gone() {
	p.connected, p.left = false, true
	time.AfterFunc(goneTime, func() {
		p.far.o.Host.Lock()
		defer p.far.o.Host.Unlock()
		if !p.closed {
			p.far.o.Peer.SetQP(p.slot, p.name.other, 0)
			p.end.Process().Wake()
		}
	})
}

// fault ends a connection whose program, or other side, does what no library does.
func (p *pair) fault(err error) {
	if p.broken {
		return
	}
	p.far.o.Warn("end a connection of queue pairs", err)
	p.broken = true
	p.Fail(broker.EventQPFatal)
	if !p.closed {
		p.end.Fail(broker.EventQPFatal)
	}
}

// collect appends what the other side has to learn, up to a size.
func (p *pair) collect(out []byte, most int) []byte {
	ready := !p.connected || p.broken
	if !ready {
		var err error
		if out, err = p.exchange(out, most); err != nil {
			p.fault(err)
		}
		ready = p.broken || !p.tx.Waiting()
	}
	if len(p.last) > 0 && (ready || !time.Now().Before(p.lastBy)) {
		out = append(out, p.last...)
		if p.last, p.stated = nil, false; p.closed {
			p.release()
		}
	}
	return out
}

func (p *pair) exchange(out []byte, most int) ([]byte, error) {
	out, err := p.report(out)
	if err == nil {
		out, err = p.answer(out, most)
	}
	if err == nil {
		out, err = p.entries(out, most)
	}
	return out, err
}

// entries sends what the program has written.
func (p *pair) entries(out []byte, most int) ([]byte, error) {
	moved := false
	for len(out) < most && p.tx.Waiting() {
		e, raw, is, err := p.tx.Next()
		if err != nil {
			return out, err
		}
		if !is || p.sent-p.seen+ring.Whole(e.Bytes) > window {
			break
		}
		out = p.send(out, e, raw[message.EntryBytes:])
		p.tx.Consume(e.Bytes)
		moved = true
	}
	if moved {
		p.wake() // it may wait for room
	}
	return out, nil
}

// send appends an entry.
func (p *pair) send(out []byte, e message.Entry, payload []byte) []byte {
	out, at := about(out, frameEntry, p.name)
	out = append(ring.Encode(out, e), payload...)
	p.sent += ring.Whole(e.Bytes)
	switch e.Opcode {
	case message.EntrySend, message.EntryImmediate, message.EntryWrite:
		p.counted = max(p.counted, e.Request)
	case message.EntryRead, message.EntryAtomicAdd, message.EntryAtomicSwap:
		p.asked++
	}
	p.far.bytes[p.end.Address().LID] += uint64(e.Bytes)
	return finish(out, at)
}

// report sends what the program has consumed, posted and carried out, where that is new.
func (p *pair) report(out []byte) ([]byte, error) {
	// What fills the ring to its end counts as not consumed, so this may fall.
	now := seen{consumed: max(p.reported.consumed, p.received-min(p.rx.Used(), p.received)), posted: p.reported.posted}
	now.done, now.status = p.finished()
	var capacities []uint32
	first := p.reported.posted
	posted := p.rx.Ring.Posted()
	switch {
	case posted == ring.SharedReceives:
		now.posted = posted
	case first == ring.SharedReceives || posted-first > message.Credits:
		return out, fmt.Errorf("a library has posted %d receives at once", posted-first)
	default:
		now.posted = first + min(posted-first, mostCapacities)
		for n := first; n != now.posted; n++ {
			capacities = append(capacities, p.rx.Ring.Capacity(n))
		}
	}
	if now == p.reported {
		return out, nil
	}
	p.reported = now
	out, at := about(out, frameSeen, p.name)
	out = binary.LittleEndian.AppendUint64(out, now.consumed)
	out = binary.LittleEndian.AppendUint64(out, now.done)
	out = binary.LittleEndian.AppendUint32(out, now.status)
	out = binary.LittleEndian.AppendUint64(out, now.posted)
	for _, c := range capacities {
		out = binary.LittleEndian.AppendUint32(out, c)
	}
	return finish(out, at), nil
}

// finished returns the last counted request up to which all are over, and how it ended.
func (p *pair) finished() (number uint64, status uint32) {
	number, status = p.reported.done, p.reported.status
	done, failed := p.rx.Ring.Done()
	for len(p.order) > 0 && status == 0 {
		r := p.order[0]
		if r.program && done < r.number {
			break
		}
		if r.program && done == r.number {
			r.status = failed
		}
		number, status = r.number, r.status
		p.order = p.order[1:]
	}
	return number, status
}

// see takes what the other side reports.
func (p *pair) see(b *body) error {
	s := seen{consumed: b.u64(), done: b.u64(), status: b.u32(), posted: b.u64()}
	n := len(b.raw) / 4
	if b.failed || len(b.raw)%4 != 0 || n > mostCapacities || s.consumed > p.sent || s.consumed < p.seen {
		return errFrame
	}
	if s.posted != ring.SharedReceives && s.posted-p.theirs.posted != uint64(n) || p.theirs.posted == ring.SharedReceives && s.posted != p.theirs.posted {
		return errFrame
	}
	p.seen = s.consumed
	switch {
	case p.end.Kind() == broker.Unreliable:
	case s.posted == ring.SharedReceives:
		p.tx.Ring.PostShared()
	case n > 0:
		capacities := make([]uint32, n)
		for i := range capacities {
			capacities[i] = b.u32()
		}
		p.tx.Ring.Post(p.theirs.posted, capacities)
	}
	if s.done != p.theirs.done {
		p.tx.Ring.SetDone(s.done, s.status)
	}
	p.theirs = s
	p.wake()
	return nil
}
