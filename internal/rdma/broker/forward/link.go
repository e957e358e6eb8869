package forward

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
)

// Times of a link.
const (
	greetTime = 10 * time.Second
	pingTime  = 5 * time.Second
	// silence is how long the other host may be silent. Its queue pairs fail then.
	silence = 20 * time.Second
)

// mostOut is how many bytes are collected for one write.
const mostOut = 256 << 10

// mostWaiting is how many bytes of frames may wait for the other side, which reads at once.
const mostWaiting = 32 << 20

// mostEarly is how many queue pairs of the other side may wait for theirs here.
const mostEarly = 1 << 16

// link is the connection with the broker of another machine.
type link struct {
	far   *Far
	conn  net.Conn
	ranks []int
	pairs map[name]*pair
	order []*pair
	early map[name]early // what the other side has connected before this one
	out   []byte         // frames that come before all others
	late  []datagram     // for inboxes without room
	retry *time.Timer    // of these; nil: there was none yet
	calls map[callName]*call
	// called counts those of the other machine.
	called int
	ends   []ending // frames of calls that come after messages
	awake  chan struct{}
	heard  time.Time
}

// early is a queue pair of the other side that waits for its connection.
type early struct {
	kind     broker.Type
	from, to uint16 // LIDs of its port, and of that which it names
	state    broker.State
}

// Serve greets the broker at the other end of a connection, which the node of a rank has, and connects
// queue pairs by it until it breaks, or the context ends.
func (f *Far) Serve(ctx context.Context, conn net.Conn, rank int) error {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return err
	}
	if _, err := conn.Write(greeting{f.o.Build, f.o.Ranks}.frame()); err != nil {
		return err
	}
	in := bufio.NewReaderSize(conn, 2*mostFrame)
	ranks, err := readGreeting(in, f.o.Build)
	if err == nil && (!slices.Contains(ranks, rank) || slices.ContainsFunc(ranks, func(r int) bool { return slices.Contains(f.o.Ranks, r) })) {
		err = fmt.Errorf("the broker of node %d names nodes %v as its own", rank, ranks)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return err
	}
	l := &link{far: f, conn: conn, ranks: ranks, pairs: map[name]*pair{}, early: map[name]early{}, calls: map[callName]*call{}, awake: make(chan struct{}, 1), heard: time.Now()}
	if err := l.begin(); err != nil {
		return err
	}
	writing := make(chan struct{})
	end := make(chan struct{})
	go func() {
		defer close(writing)
		l.write(end)
	}()
	err = l.read(in)
	conn.Close()
	close(end)
	<-writing
	l.lost()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// begin has what waits for the ranks of the other side use the link.
func (l *link) begin() error {
	f := l.far
	f.o.Host.Lock()
	defer f.o.Host.Unlock()
	if f.ended {
		return net.ErrClosed
	}
	for _, r := range l.ranks {
		if f.links[r] != nil {
			return fmt.Errorf("there is a link with the broker of node %d", r)
		}
	}
	for _, r := range l.ranks {
		f.links[r] = l
		for _, p := range f.waiting[r] {
			l.add(p)
		}
		delete(f.waiting, r)
		for _, c := range f.callers[r] {
			l.request(c)
		}
		delete(f.callers, r)
	}
	return nil
}

// lost fails the connections of a link that has ended.
func (l *link) lost() {
	f := l.far
	f.o.Host.Lock()
	defer f.o.Host.Unlock()
	for _, r := range l.ranks {
		delete(f.links, r)
	}
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
	for _, b := range f.boxes {
		if slices.Contains(l.ranks, b.rank) {
			b.under = 0 // they are lost
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

// write sends what there is, and sleeps otherwise, until the end or a failure.
func (l *link) write(end <-chan struct{}) {
	defer l.conn.Close()
	ping := time.NewTicker(pingTime)
	defer ping.Stop()
	var out []byte
	for {
		if out = l.next(out); len(out) == 0 {
			l.far.o.Peer.Sleep(true)
			out = l.next(out) // what programs wrote before they could see that
			more := len(out) > 0 || l.wait(ping.C, end)
			l.far.o.Peer.Sleep(false)
			if !more {
				return
			}
		}
		if len(out) > 0 && l.send(out) != nil {
			return
		}
	}
}

// next returns what there is to send, in the memory of what was sent.
func (l *link) next(out []byte) []byte {
	l.far.o.Host.Lock()
	defer l.far.o.Host.Unlock()
	return l.collect(out[:0])
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

func (l *link) send(out []byte) error {
	err := l.conn.SetWriteDeadline(time.Now().Add(silence))
	if err == nil {
		_, err = l.conn.Write(out)
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
	out, at := begin(l.out, framePing)
	l.out = finish(out, at)
	return true
}

// collect appends what there is to send.
func (l *link) collect(out []byte) []byte {
	l.deliver()
	out = append(out, l.out...)
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
		l.heard = time.Now()
		if err = l.take(k, &body{raw: raw}); err == nil && len(l.out) > mostWaiting {
			err = errors.New("the other side asks, and reads no answers")
		}
		l.far.o.Host.Unlock()
		if err != nil {
			return err
		}
	}
}

// take does what a frame says.
func (l *link) take(k kind, b *body) error {
	switch k {
	case framePing:
		return nil
	case frameDatagram, frameTaken, frameNobody:
		return l.takeDatagram(k, b)
	case frameConnect:
		return l.connect(b)
	case frameCall:
		return l.takeCall(b)
	case frameStep:
		return l.takeStep(b)
	}
	n := b.name()
	p := l.pairs[n]
	if b.failed {
		return errFrame
	}
	if p != nil && p.closed && k != frameSeen { // it only sends what was left
		if k == frameGone {
			p.release()
		}
		return nil
	}
	if p == nil || !p.connected { // it has left meanwhile
		if e, is := l.early[n]; is {
			l.later(k, n, e, b)
		}
		return nil
	}
	switch k {
	case frameState:
		s := b.u8()
		if b.failed || s > uint8(broker.Failed) {
			return errFrame
		}
		l.far.o.Peer.SetQP(p.slot, n.other, uint32(s)+1)
		p.end.Process().Wake()
	case frameFail:
		p.end.Fail(int32(b.u32()))
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
func (l *link) later(k kind, n name, e early, b *body) {
	switch k {
	case frameState:
		e.state = broker.State(b.u8())
		l.early[n] = e
	case frameGone:
		delete(l.early, n)
	}
}

// connect takes that the other side has connected.
func (l *link) connect(b *body) error {
	n := b.name()
	e := early{from: b.u16(), to: b.u16()}
	e.kind, e.state = broker.Type(b.u8()), broker.State(b.u8())
	if b.failed || e.state > broker.Failed {
		return errFrame
	}
	if p := l.pairs[n]; p != nil && !p.connected && !p.left && !p.closed {
		l.match(p, e)
		return nil
	}
	if len(l.early) == mostEarly {
		return errors.New("too many queue pairs wait for their connection")
	}
	l.early[n] = e
	return nil
}
