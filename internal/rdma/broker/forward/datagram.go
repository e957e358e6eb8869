package forward

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// mostUnder is how many datagrams for one queue pair may be on their way.
const mostUnder = 64

// mostLate is how many datagrams of a link may wait for room in inboxes, mostUnder for one of them, and lateTime how
// long: longLateTime where the receiver has receives for all that have come, as a card would have put them there.
const (
	mostLate     = 4096
	lateTime     = 100 * time.Millisecond
	longLateTime = 5 * time.Second
)

// target names a datagram queue pair.
type target struct {
	lid    uint16
	number uint32
}

// outbox is what programs take for the inbox of a datagram queue pair of another machine.
type outbox struct {
	to   target
	rank int
	share
	inbox ring.Inbox
	next  uint64 // message
	under int    // how many are on their way
}

// datagram is one for an inbox of this machine.
type datagram struct {
	to           target
	header, text []byte
	came         time.Time
}

// backlog is what waits for room in an inbox.
type backlog struct {
	late    []datagram
	blocked bool // one has waited for long, and none has found room since
}

// Attach implements broker.Far.
func (f *Far) Attach(r *message.Attach) (broker.Inbox, error) {
	rank, is := f.o.Rank(r.LID, r.Global != 0, r.GID)
	if !is || f.ended {
		return broker.Inbox{}, errFrame
	}
	to := target{f.o.Address(rank).LID, r.Number}
	b := f.boxes[to]
	if b == nil {
		var err error
		if b, err = f.newBox(to, rank); err != nil {
			return broker.Inbox{}, err
		}
		if !f.Linked(rank) {
			f.o.Want(rank)
		}
	}
	return broker.Inbox{Segment: b.segment, Owner: f.o.Peer, Process: f.o.Peer.Number(), Slot: b.slot}, nil
}

func (f *Far) newBox(to target, rank int) (*outbox, error) {
	if len(f.boxes) == mostBoxes {
		return nil, &broker.Limit{Name: "datagram queue pairs of other machines", Value: mostBoxes}
	}
	s, err := f.share(message.InboxBytes)
	if err != nil {
		return nil, err
	}
	b := &outbox{to: to, rank: rank, share: s, inbox: s.memory}
	b.inbox.TakeAll()
	f.boxes[to] = b
	f.o.Peer.SetQP(b.slot, to.number, uint32(broker.ReadyToReceive)+1)
	return b, nil
}

// drop forgets an outbox: no queue pair receives there.
func (f *Far) drop(b *outbox) {
	delete(f.boxes, b.to)
	f.unshare(b.share)
}

// mail reports whether programs have sent datagrams that wait for the link.
func (l *link) mail() bool {
	for _, b := range l.far.boxes {
		if l.far.links[b.rank] == l {
			if _, _, is := b.inbox.Next(b.next); is {
				return true
			}
		}
	}
	return false
}

// datagrams appends those that programs have sent.
func (l *link) datagrams(out []byte) []byte {
	for _, b := range l.far.boxes {
		if l.far.links[b.rank] != l {
			continue
		}
		for b.under < mostUnder && len(out) < mostOut {
			header, text, is := b.inbox.Next(b.next)
			if !is {
				break
			}
			out = b.to.append(out, frameDatagram, header, text)
			b.inbox.Release(b.next)
			b.next++
			b.under++
			l.count(header, text)
		}
	}
	return out
}

// count counts a datagram for its port.
func (l *link) count(header, text []byte) {
	if rank, is := l.far.o.Rank(ring.Source(header), false, [16]byte{}); is && slices.Contains(l.far.o.Ranks, rank) {
		l.far.bytes[ring.Source(header)] += uint64(len(text))
	}
}

// append appends a frame about a datagram queue pair.
func (t target) append(out []byte, k kind, parts ...[]byte) []byte {
	out, at := begin(out, k)
	out = binary.LittleEndian.AppendUint16(out, t.lid)
	out = binary.LittleEndian.AppendUint32(out, t.number)
	for _, p := range parts {
		out = append(out, p...)
	}
	return finish(out, at)
}

// takeDatagram takes a frame about datagrams.
func (l *link) takeDatagram(k kind, b *body) error {
	to := target{b.u16(), b.u32()}
	if k == frameDatagram {
		d := datagram{to: to, header: b.take(ring.DatagramHeader), text: b.raw, came: time.Now()}
		if b.failed || len(d.text) > message.InboxMessage {
			return errFrame
		}
		l.arrive(d)
		return nil
	}
	box := l.far.boxes[to]
	switch {
	case b.failed:
		return errFrame
	case box == nil || l.far.links[box.rank] != l:
	case k == frameNobody:
		l.far.drop(box)
	case box.under > 0:
		box.under--
		l.kick()
	}
	return nil
}

// arrive puts a datagram into its inbox, or keeps it for a time until there is room. What waits for others does not
// hold it back.
func (l *link) arrive(d datagram) {
	b := l.backlogs[d.to]
	if (b == nil || len(b.late) == 0) && l.put(d) {
		delete(l.backlogs, d.to)
		return
	}
	if b == nil {
		b = &backlog{}
		l.backlogs[d.to] = b
	}
	if len(b.late) == mostUnder || l.late == mostLate {
		l.taken(d.to, frameTaken) // lost, as on a network
		return
	}
	d.header, d.text = append([]byte(nil), d.header...), append([]byte(nil), d.text...)
	b.late = append(b.late, d)
	l.late++
	l.kick()
}

// put delivers a datagram; false: there is no room.
func (l *link) put(d datagram) bool {
	inbox, err := l.far.o.Host.Receiver(d.to.lid, d.to.number)
	if err != nil {
		l.taken(d.to, frameNobody)
		return true
	}
	memory, err := l.far.o.Host.Memory(inbox.Segment)
	if err == nil && !ring.Inbox(memory).Put(d.header, d.text) {
		return false
	}
	l.far.o.Host.Wake(inbox.Owner)
	l.taken(d.to, frameTaken)
	return true
}

// attentive reports whether a receiver has receives for all datagrams that have come.
func (l *link) attentive(to target) bool {
	inbox, err := l.far.o.Host.Receiver(to.lid, to.number)
	if err != nil {
		return false
	}
	memory, err := l.far.o.Host.Memory(inbox.Segment)
	return err == nil && ring.Inbox(memory).Receives() > message.InboxSlots
}

func (l *link) taken(to target, k kind) {
	l.out = to.append(l.out, k)
	l.kick()
}

// settle tries the first datagram of a backlog again, and loses it after its time; false: it waits.
func (l *link) settle(b *backlog) bool {
	d := b.late[0]
	if l.put(d) {
		b.blocked = false
		return true
	}
	waits := time.Since(d.came)
	if waits <= lateTime {
		return false
	}
	if !b.blocked && l.attentive(d.to) {
		if waits <= longLateTime {
			return false
		}
		b.blocked = true
	}
	l.taken(d.to, frameTaken)
	return true
}

// deliver tries again what had no room.
func (l *link) deliver() {
	for to, b := range l.backlogs {
		for len(b.late) > 0 && l.settle(b) {
			b.late = b.late[1:]
			l.late--
		}
		if len(b.late) > 0 {
			continue
		}
		if _, err := l.far.o.Host.Receiver(to.lid, to.number); err != nil || !b.blocked {
			delete(l.backlogs, to)
		}
	}
	switch {
	case l.late == 0:
	case l.retry == nil:
		l.retry = time.AfterFunc(time.Millisecond, l.kick)
	default:
		l.retry.Reset(time.Millisecond)
	}
}
