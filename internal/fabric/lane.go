package fabric

import (
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/fabric/loop"
	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

// On a lane each frame is preceded by its length, four bytes, as QEMU's stream
// sockets have it. Lengths that no frame has mean something else.
const (
	lengthSize = 4

	signLife   = 0 // of life, and nothing else
	signWish   = 1 // for another lane
	signAsk    = 2 // that the other end answers when it has forwarded all before
	signAnswer = 3
	signEras   = 4 // which follow: see link
)

// Bounds of a lane.
const (
	// queueLimit is the most that waits for a slow lane, in bytes: some tens
	// of milliseconds at 1 Gbit/s, which a TCP in the guests can work with.
	queueLimit = 4 << 20
	// A lane that is silent for so long is broken: so one that breaks without a
	// word is there again, or told of, within two seconds.
	beat    = 250 * time.Millisecond
	silence = time.Second
	// beatsAsked is of how many beats one is a question.
	beatsAsked = 40
)

var (
	errSilent  = errors.New("nothing is heard from there any more")
	errGivenUp = errors.New("the other end has given it up")
)

// Lane is one connection of a link to another host's switch.
type Lane struct {
	link  *link
	slot  int
	c     net.Conn
	clear bool // it is not encrypted

	out     *outbox
	done    chan struct{}
	once    sync.Once
	err     error
	last    bool
	begun   time.Time
	heard   atomic.Int64 // last, in nanoseconds since then
	waiting atomic.Bool  // for something to come, not for others

	carrier *loop.Conn   // what carries c; nil: something else than TCP, which knows no loop
	source  *loop.Source // of what comes; nil likewise
	in      []byte       // what came and is not whole; nil: nothing
	burst   burst

	forwarding sync.Mutex // held while what came is forwarded
	over       bool       // nothing is any more; guarded by it

	writing sync.Mutex // held by who writes
	open    bool       // frames may be; guarded by it
	spoke   time.Time  // when they were last; likewise
	due     atomic.Int32

	after sync.WaitGroup // what other lanes have to deliver first
	ready chan struct{}  // closed when they have
	owed  atomic.Int32   // answers
	wish  atomic.Bool    // to be told

	// Questions that are not answered yet; guarded by link.mu, as what follows.
	asked []question
	dead  bool
	beats int

	// Of the other end's.
	era    byte
	begins bool // it is known
}

// question is on its way to the other end and back, behind frames.
type question struct {
	at       time.Time
	answered func()
}

func newLane(k *link, slot int, c net.Conn) (*Lane, error) {
	_, secure := c.(interface{ ConnectionState() tls.ConnectionState })
	l := &Lane{link: k, slot: slot, c: c, clear: !secure, done: make(chan struct{}), ready: make(chan struct{}), begun: time.Now()}
	l.burst = burst{f: k.f, from: way(k.host), toGuest: newBatch()}
	l.waiting.Store(true)
	if err := l.board(); err != nil {
		return nil, err
	}
	l.out = newOutbox(k.f.store, leastChunks)
	if l.carrier != nil {
		l.out.atOnce = l.atOnce
		l.source = k.f.loop.Add(l.look)
	}
	return l, nil
}

// board has the loop carry the connection, if it is, or is carried by, one of TCP.
func (l *Lane) board() (err error) {
	by := func(c net.Conn) (net.Conn, error) {
		t, ok := c.(*net.TCPConn)
		if !ok {
			return c, nil
		}
		own, err := loop.NewConn(t)
		if err != nil {
			return nil, err
		}
		l.carrier = own
		return own, nil
	}
	if secure, ok := l.c.(interface {
		Carry(by func(net.Conn) (net.Conn, error)) error
	}); ok {
		return secure.Carry(by)
	}
	c, err := by(l.c)
	if err == nil {
		l.c = c
	}
	return err
}

// begin has the lane send, and hear.
func (l *Lane) begin() {
	l.remind() // before anything is in its way
	go l.write()
	if l.carrier == nil {
		go func() {
			for !l.look(loop.Own) {
			}
		}()
	} else if err := l.carrier.Of(l.source); err != nil {
		l.fail(err)
	} else {
		l.source.Call() // TLS may have read what followed its handshake
	}
}

// Done is closed when the lane has broken.
func (l *Lane) Done() <-chan struct{} { return l.done }

// Err tells why, after Done, and Last whether the link was lost with it.
func (l *Lane) Err() error { return l.err }

// Last tells, after Done, whether the link has no other lane.
func (l *Lane) Last() bool { return l.last }

// Heard tells when the other end was heard last.
func (l *Lane) Heard() time.Time { return l.begun.Add(time.Duration(l.heard.Load())) }

func (l *Lane) hear() { l.heard.Store(int64(time.Since(l.begun))) }

// close ends the lane; what was written still arrives.
func (l *Lane) close() { l.end(net.ErrClosed, l.c.Close) }

// fail ends the lane at once; nothing that came by it is forwarded when it returns. What
// was written and has not arrived shall not: the flow that it is of goes on by another one.
func (l *Lane) fail(err error) { l.end(err, func() error { return abort(l.c) }) }

func (l *Lane) end(err error, shut func() error) {
	l.once.Do(func() {
		l.source.Close()
		shut() //nolint:errcheck // it has ended
		l.last, l.err = l.link.drop(l), err
		close(l.done)
		l.forwarding.Lock()
		l.over = true
		l.forwarding.Unlock()
		l.link.forget(l)
		if !errors.Is(err, net.ErrClosed) {
			f := l.link.f
			f.log.Warn("the fabric lost a connection", "to", f.hostName(l.link.host), "lane", l.slot, "err", err)
		}
	})
}

// abort closes a connection, and what it is carried by, without a last word.
func abort(c net.Conn) error {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if t, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		t.SetLinger(0) //nolint:errcheck // then it says it
	}
	return c.Close()
}

// ask puts a question behind what waits, and has answered called when all of that
// has been forwarded at the other end, or the lane has ended. Callers hold link.mu.
func (l *Lane) ask(answered func()) {
	if l.dead {
		answered()
		return
	}
	l.asked = append(l.asked, question{time.Now(), answered})
	if l.out.sign(signAsk) {
		l.out.rouse()
	}
}

// answer takes the answer to the oldest question.
func (l *Lane) answer() error {
	k := l.link
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(l.asked) == 0 {
		return errors.New("an answer to nothing")
	}
	q := l.asked[0]
	l.asked = l.asked[1:]
	q.answered()
	if trip := time.Since(q.at); k.trip == 0 || trip < k.trip {
		k.trip = trip
	}
	return nil
}

// write sends what waits, many frames at once, while more comes in behind.
func (l *Lane) write() {
	defer l.out.close()
	var err error
	for ready := l.ready; err == nil; {
		select {
		case <-ready:
			ready, err = nil, l.alone(func() error { l.open = true; return l.drain() })
		case <-l.out.wake:
			err = l.alone(l.drain)
		case <-l.done:
			return
		}
	}
	l.fail(err)
}

// alone does something as the only one who writes.
func (l *Lane) alone(do func() error) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return do()
}

// drain sends what waits, but for frames before it is their turn. Callers hold writing.
func (l *Lane) drain() error {
	if err := l.signs(); err != nil || !l.open {
		return err
	}
	return l.out.drain(l.send)
}

func (l *Lane) send(frames []byte) error {
	if err := l.signs(); err != nil {
		return err
	}
	l.spoke = time.Now()
	_, err := l.c.Write(frames)
	return err
}

// atOnce sends some of what waits on behalf of who gave it, without waiting, so that
// nobody has to be woken for it, and tells whether nothing is left.
func (l *Lane) atOnce() bool {
	if !l.writing.TryLock() {
		return false
	}
	defer l.writing.Unlock()
	if !l.open {
		return false
	}
	if l.silent() {
		return true
	}
	for range burstChunks {
		room := l.carrier.Room()
		if room == 0 {
			return false
		}
		err := l.signs()
		if err == nil {
			_, err = l.out.next(room, l.send)
		}
		if err != nil {
			go l.fail(err) // who gave it may hold what that needs
			return true
		}
		if l.silent() {
			return true
		}
	}
	return false
}

// burstChunks are those of what a guest sends at once. More at a time would be what
// others have added meanwhile.
const burstChunks = 4

// silent tells whether it has nothing to say.
func (l *Lane) silent() bool { return l.due.Load() == nothingDue && !l.out.waits() }

// What is due at a beat.
const (
	nothingDue = iota
	lifeDue
	questionDue
)

// signs writes the answers that are owed, the wish if there is one, and what is due.
// Callers hold writing.
func (l *Lane) signs() error {
	if l.wish.Swap(false) {
		if err := l.say(signWish); err != nil {
			return err
		}
	}
	for ; l.owed.Load() > 0; l.owed.Add(-1) {
		if err := l.say(signAnswer); err != nil {
			return err
		}
	}
	due := l.due.Swap(nothingDue)
	if due == nothingDue {
		return nil
	}
	switch {
	case due == questionDue:
		return l.say(signAsk)
	case time.Since(l.spoke) > beat/2: // or else it has heard of us
		return l.say(signLife)
	}
	return nil
}

// tend is what is to be done at each beat: it ends a lane over which nothing comes any
// more, unless it was we who did not read. The other end is to hear of this one, and how
// long that takes is found out, at first and then now and again.
func (l *Lane) tend(stopped bool) {
	if stopped || !l.waiting.Load() || l.carrier != nil && l.carrier.Unread() {
		l.hear()
	} else if time.Since(l.Heard()) >= silence {
		go l.fail(errSilent)
		return
	}
	l.remind()
}

// remind has a sign of life be due, or a question.
func (l *Lane) remind() {
	k := l.link
	k.mu.Lock()
	ask := !l.dead && len(l.asked) == 0 && (k.trip == 0 || l.beats%beatsAsked == 0)
	l.beats++
	if ask { // before any that are put behind frames from now on, as it goes ahead of these
		l.asked = append(l.asked, question{time.Now(), func() {}})
		l.due.Store(questionDue)
	}
	k.mu.Unlock()
	l.due.CompareAndSwap(nothingDue, lifeDue)
	l.out.leave()
}

func (l *Lane) say(sign uint32) error {
	_, err := l.c.Write(binary.BigEndian.AppendUint32(nil, sign))
	return err
}

// readBuffer holds the largest frame, and takes many small ones at once.
const readBuffer = 72 << 10

// look forwards some of what has come, and tells whether that was all.
func (l *Lane) look(turn loop.Turn) (dry bool) {
	if turn == loop.Heard {
		l.carrier.Heard()
	}
	if p := l.link.f.alone(); p != nil && p.out.deep.Load() {
		if turn != loop.Own {
			return false
		}
		l.waiting.Store(false)
		p.out.settle()
		l.waiting.Store(true)
	}
	if l.in == nil {
		l.in = l.link.f.buffers.get()
	}
	n, err := l.c.Read(l.in[len(l.in):cap(l.in)])
	dry = errors.Is(err, loop.ErrNothing)
	if dry {
		err = nil
	}
	if l.in = l.in[:len(l.in)+n]; n > 0 {
		l.hear()
		used, wrong := l.forward()
		err = cmp.Or(wrong, err)
		l.in = l.in[:copy(l.in, l.in[used:])] // the beginning of a frame
	}
	if len(l.in) == 0 {
		l.link.f.buffers.put(l.in)
		l.in = nil
	}
	if err != nil {
		l.fail(err)
	}
	return dry || err != nil
}

// forward is take, unless the lane has ended.
func (l *Lane) forward() (used int, err error) {
	l.forwarding.Lock()
	defer l.forwarding.Unlock()
	if l.over {
		return 0, net.ErrClosed
	}
	l.waiting.Store(false)
	defer l.waiting.Store(true)
	return l.take(&l.burst, l.in)
}

// take forwards the frames that are there as a whole, and tells how many bytes
// they were.
func (l *Lane) take(b *burst, in []byte) (used int, err error) {
	defer b.through()
	frames, bytes := 0, 0
	for len(in)-used >= lengthSize {
		n := int(binary.BigEndian.Uint32(in[used:]))
		if n <= signEras {
			rest := in[used+lengthSize:]
			if n == signEras && len(rest) < MostLanes {
				break
			}
			if err := l.told(b, n, rest); err != nil {
				return used, err
			}
			if used += lengthSize; n == signEras {
				used += MostLanes
			}
			continue
		}
		if n < b.f.header+ethernetHeader || n > maxFrame {
			return used, fmt.Errorf("a frame of %d bytes cannot be", n)
		}
		if len(in)-used-lengthSize < n {
			break
		}
		b.forward(vhost.Frame{Head: in[used+lengthSize:][:n]})
		frames++
		bytes += n
		used += lengthSize + n
	}
	l.link.received.add(frames, bytes)
	return used, nil
}

// told deals with a sign.
func (l *Lane) told(b *burst, sign int, rest []byte) error {
	switch sign {
	case signWish:
		l.link.asked.Store(true)
	case signAsk:
		b.through()
		l.owed.Add(1)
		l.out.rouse()
	case signAnswer:
		return l.answer()
	case signEras:
		b.through()
		if !l.link.heed(l, rest[:MostLanes]) {
			return errGivenUp
		}
	}
	return nil
}
