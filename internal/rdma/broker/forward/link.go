package forward

import (
	"bufio"
	"encoding/binary"
	"net"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
)

// Times of a link.
const (
	greetTime = 10 * time.Second
	pingTime  = 2 * time.Second
	// silence is how long the other host may be silent. Another connection is made then.
	silence = 7 * time.Second
)

// mostUnreported is how many bytes of frames are taken before the other side learns of that.
const mostUnreported = 64 << 10

// mostOut is how many bytes are collected for one write.
const mostOut = 256 << 10

// mostWaiting is how many bytes of frames may wait for the other side, which reads at once.
const mostWaiting = 32 << 20

// mostEarly is how many queue pairs of the other side may wait for theirs here.
const mostEarly = 1 << 16

// link is what two brokers have with each other. It outlives its connections: frames that were lost
// with one are sent again by the next.
type link struct {
	far   *Far
	ranks []int
	id    uint64        // a random number, which both sides have
	conn  net.Conn      // nil: it has broken, and there is no other one yet
	since time.Time     // of the connection, or since when there is none
	idle  chan struct{} // closed when the connection is used no more
	over  bool          // it has no further connection
	sent  sent
	// received counts the frames that were taken, reported is how many the other side knows of, and unreported counts
	// the bytes of the rest.
	received, reported uint64
	unreported         int
	pinging            bool

	pairs map[name]*pair
	order []*pair
	early map[name]early // what the other side has connected before this one
	out   []byte         // frames that come before all others
	// backlogs are datagrams for inboxes without room, and late counts them. Their timer is nil before the first.
	backlogs map[target]*backlog
	late     int
	retry    *time.Timer
	calls    map[callName]*call
	// called counts those of the other machine.
	called int
	ends   []ending // frames of calls that come after messages
	groups groups
	awake  chan struct{}
	heard  time.Time
}

// early is a queue pair of the other side that waits for its connection.
type early struct {
	kind     broker.Type
	from, to uint16 // LIDs of its port, and of that which it names
	state    broker.State
}

// lost ends a link, and fails its connections.
func (l *link) lost() {
	f := l.far
	l.over = true
	for _, r := range l.ranks {
		if f.links[r] == l {
			delete(f.links, r)
		}
	}
	l.sent, l.out, l.ends = sent{}, nil, nil
	for _, p := range slices.Clone(l.order) {
		p.link = nil
		switch {
		case p.closed:
			p.release()
		case p.connected:
			p.lost()
		case !p.left:
			f.waiting[p.rank] = append(f.waiting[p.rank], p)
			f.o.Want(p.rank)
		}
	}
	for _, c := range l.calls {
		c.lost()
	}
	if len(f.joined) > 0 && !f.ended { // the other side has to learn of that again
		f.o.Want(l.ranks[0])
	}
	for _, b := range f.boxes {
		if slices.Contains(l.ranks, b.rank) {
			b.under = 0 // they are lost
			if !f.ended {
				f.o.Want(b.rank) // nobody looks for further ones while there is no link
			}
		}
	}
}

// add has a connection use the link.
func (l *link) add(p *pair) {
	if o := l.pairs[p.name]; o != nil { // of the queue pair before it was reset
		l.out = append(l.out, o.last...)
		o.release()
	}
	p.link = l
	l.pairs[p.name] = p
	l.order = append(l.order, p)
	out, at := about(l.out, frameConnect, p.name)
	out = binary.LittleEndian.AppendUint16(out, p.end.Address().LID)
	out = binary.LittleEndian.AppendUint16(out, l.far.o.Address(p.rank).LID)
	l.control(append(out, byte(p.end.Kind()), byte(p.end.State())), at)
	if e, is := l.early[p.name]; is {
		delete(l.early, p.name)
		l.match(p, e)
	}
}

// match establishes a connection where both sides name each other.
func (l *link) match(p *pair, e early) {
	if e.from == l.far.o.Address(p.rank).LID && e.to == p.end.Address().LID && e.kind == p.end.Kind() {
		p.establish(e.state)
	}
}

func (l *link) remove(p *pair) {
	if l.pairs[p.name] == p {
		delete(l.pairs, p.name)
	}
	l.order = slices.DeleteFunc(l.order, func(o *pair) bool { return o == p })
	p.link = nil
}

// control takes a frame that comes before the data.
func (l *link) control(out []byte, at int) {
	l.out = finish(out, at)
	l.kick()
}

// kick has the link look for what to send.
func (l *link) kick() {
	select {
	case l.awake <- struct{}{}:
	default:
	}
}

// write sends what has to be sent again, and then what there is, and sleeps otherwise, until the end or a failure.
func (l *link) write(conn net.Conn, again [][]byte, end <-chan struct{}) error {
	defer conn.Close()
	for _, frames := range again {
		if err := send(conn, frames); err != nil {
			return err
		}
	}
	ping := time.NewTicker(pingTime)
	defer ping.Stop()
	for {
		out := l.next()
		if len(out) == 0 {
			l.far.o.Peer.Sleep(true)
			out = l.next() // what programs wrote before they could see that
			more := len(out) > 0 || l.wait(ping.C, end)
			l.far.o.Peer.Sleep(false)
			if !more {
				return nil
			}
		}
		if len(out) == 0 {
			continue
		}
		if err := send(conn, out); err != nil {
			return err
		}
	}
}

// next returns what there is to send, and keeps what has to arrive.
func (l *link) next() []byte {
	l.far.o.Host.Lock()
	defer l.far.o.Host.Unlock()
	out := l.sent.buffer()
	if !l.sent.full() {
		out = l.collect(out)
	}
	lasting := len(out)
	if l.reported != l.received && (len(out) > 0 || l.pinging || l.unreported >= mostUnreported) {
		var at int
		out, at = begin(out, frameReported)
		out = finish(binary.LittleEndian.AppendUint64(out, l.received), at)
		l.reported, l.unreported = l.received, 0
	} else if l.pinging {
		out = finish(begin(out, framePing))
	}
	l.pinging = false
	l.sent.keep(out, lasting)
	return out
}

// wait waits until there may be something to send; false: the link has ended.
func (l *link) wait(ping <-chan time.Time, end <-chan struct{}) bool {
	select {
	case <-l.awake:
		return true
	case <-ping:
		return l.ping()
	case <-end:
		return false
	}
}

func send(conn net.Conn, out []byte) error {
	err := conn.SetWriteDeadline(time.Now().Add(silence))
	if err == nil {
		_, err = conn.Write(out)
	}
	return err
}

// ping asks for an answer; false: the other side is silent for too long.
func (l *link) ping() bool {
	l.far.o.Host.Lock()
	defer l.far.o.Host.Unlock()
	if time.Since(l.heard) > silence {
		return false
	}
	l.pinging = true
	l.sent.rest()
	return true
}

// collect appends what there is to send.
func (l *link) collect(out []byte) []byte {
	l.deliver()
	out = l.memberships(append(out, l.out...))
	l.out = l.out[:0]
	for _, p := range slices.Clone(l.order) { // one that has ended leaves it
		if len(out) >= mostOut {
			i := slices.Index(l.order, p)
			l.order = append(slices.Clone(l.order[i:]), l.order[:i]...) // the rest comes first next time
			break
		}
		out = p.collect(out, mostOut)
	}
	return l.datagrams(l.ended(out))
}

// read takes frames until the connection ends.
func (l *link) read(in *bufio.Reader) error {
	buf := make([]byte, mostFrame)
	for {
		k, raw, err := readFrame(in, buf)
		if err != nil {
			return err
		}
		l.far.o.Host.Lock()
		err = l.hear(k, raw)
		l.far.o.Host.Unlock()
		if err != nil {
			return err
		}
	}
}

// hear takes a frame of a connection. Those that last are counted.
func (l *link) hear(k kind, raw []byte) error {
	l.heard = time.Now()
	if len(l.out) > mostWaiting { // the other side asks, and takes no answers
		return errFrame
	}
	switch k {
	case framePing:
		return nil
	case frameReported:
		b := body{raw: raw}
		frames, full := b.u64(), l.sent.full()
		if b.failed || l.sent.take(frames) != nil {
			return errFrame
		}
		if full {
			l.kick()
		}
		return nil
	}
	if err := l.take(k, &body{raw: raw}); err != nil {
		return err
	}
	l.received++
	if l.unreported += len(raw) + 5; l.unreported >= mostUnreported {
		l.kick()
	}
	return nil
}

// take does what a frame says.
func (l *link) take(k kind, b *body) error {
	switch k {
	case frameVoid:
		return nil
	case frameDatagram, frameTaken, frameNobody:
		return l.takeDatagram(k, b)
	case frameConnect:
		return l.connect(b)
	case frameCall:
		return l.takeCall(b)
	case frameStep:
		return l.takeStep(b)
	case frameMember:
		return l.takeMember(b)
	}
	n := b.name()
	p := l.pairs[n]
	if b.failed {
		return errFrame
	}
	if p != nil && p.closed && k != frameSeen { // it only sends what was left
		if e, is := l.early[n]; is { // the other side has connected again
			return l.later(k, n, e, b)
		}
		if k == frameGone {
			p.release()
		}
		return nil
	}
	if p == nil || !p.connected { // it has left meanwhile
		if e, is := l.early[n]; is {
			return l.later(k, n, e, b)
		}
		return nil
	}
	switch k {
	case frameState:
		s := b.state()
		if b.failed {
			return errFrame
		}
		l.far.o.Peer.SetQP(p.slot, n.other, uint32(s)+1)
		p.end.Process().Wake()
	case frameFail:
		event := int32(b.u32())
		if b.failed || !broker.OfQP(event) { // the program would take the queue pair for something else
			return errFrame
		}
		p.end.Fail(event)
	case frameGone:
		p.gone()
	case frameEntry:
		if err := p.receive(b.raw); err != nil {
			p.fault(err)
		}
		l.kick()
	case frameSeen:
		if err := p.see(b); err != nil {
			p.fault(err)
		}
		l.kick()
	default:
		return errFrame
	}
	if b.failed {
		return errFrame
	}
	return nil
}

// later notes what becomes of a queue pair that waits for one here.
func (l *link) later(k kind, n name, e early, b *body) error {
	switch k {
	case frameState:
		if e.state = b.state(); b.failed {
			return errFrame
		}
		l.early[n] = e
	case frameGone:
		delete(l.early, n)
	}
	return nil
}

// connect takes that the other side has connected.
func (l *link) connect(b *body) error {
	n := b.name()
	e := early{from: b.u16(), to: b.u16()}
	e.kind, e.state = broker.Type(b.u8()), b.state()
	if b.failed {
		return errFrame
	}
	if p := l.pairs[n]; p != nil && !p.connected && !p.left && !p.closed {
		l.match(p, e)
		return nil
	}
	if len(l.early) == mostEarly {
		return errFrame
	}
	l.early[n] = e
	return nil
}
