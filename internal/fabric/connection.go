package fabric

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric/loop"
)

// Each frame on a connection is preceded by its length, four bytes, as QEMU's stream
// sockets have it. Lengths that no frame has mean something else.
const (
	lengthSize = 4

	signLife   = 0 // of life, and nothing else
	signMore   = 1 // for another connection
	signAsk    = 2 // that the other end answers when it has forwarded all before
	signAnswer = 3
	signEras   = 4 // which follow: see link
)

// Bounds of a connection.
const (
	// queueLimit is the most that waits for a slow connection, in bytes: some tens
	// of milliseconds at 1 Gbit/s, which a TCP in the guests can work with.
	queueLimit = 4 << 20
	// A connection that is silent for so long is broken: so one that breaks without a
	// word is there again, or reported, within two seconds.
	beat    = 250 * time.Millisecond
	silence = time.Second
	// beatsAsked is of how many beats one is a question.
	beatsAsked = 40
)

var (
	errSilent  = errors.New("nothing is heard from there any more")
	errGivenUp = errors.New("the other end has given it up")
)

// Connection is one of those of a link to another host's switch.
type Connection struct {
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

	after     sync.WaitGroup // what other connections have to deliver first
	ready     chan struct{}  // closed when they have
	owed      atomic.Int32   // answers
	wantsMore atomic.Bool    // to be reported

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

func newConnection(k *link, slot int, c net.Conn) (*Connection, error) {
	_, secure := c.(interface{ ConnectionState() tls.ConnectionState })
	l := &Connection{link: k, slot: slot, c: c, clear: !secure, done: make(chan struct{}), ready: make(chan struct{}), begun: time.Now()}
	l.burst = burst{f: k.f, from: route(k.host), toGuest: newBatch()}
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
func (l *Connection) board() (err error) {
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

// begin has the connection send, and hear.
func (l *Connection) begin() {
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

// Done is closed when the connection has broken.
func (l *Connection) Done() <-chan struct{} { return l.done }

// Err reports why, after Done, and Last whether the link was lost with it.
func (l *Connection) Err() error { return l.err }

// Last reports, after Done, whether the link has no other connection.
func (l *Connection) Last() bool { return l.last }

// Heard reports when the other end was heard last.
func (l *Connection) Heard() time.Time { return l.begun.Add(time.Duration(l.heard.Load())) }

func (l *Connection) hear() { l.heard.Store(int64(time.Since(l.begun))) }

// close ends the connection; what was written still arrives.
func (l *Connection) close() { l.end(net.ErrClosed, l.c.Close) }

// fail ends the connection at once; nothing that came by it is forwarded when it returns. What
// was written and has not arrived shall not: the flow that it is of continues by another one.
func (l *Connection) fail(err error) { l.end(err, func() error { return abort(l.c) }) }

func (l *Connection) end(err error, shut func() error) {
	l.once.Do(func() {
		l.source.Close()
		core.BestEffort(shut()) // it has ended
		l.last, l.err = l.link.drop(l), err
		close(l.done)
		l.forwarding.Lock()
		l.over = true
		l.forwarding.Unlock()
		l.link.forget(l)
		if !errors.Is(err, net.ErrClosed) {
			f := l.link.f
			f.log.Warn("the fabric lost a connection", "to", f.hostName(l.link.host), "connection", l.slot, "err", err)
		}
	})
}

// abort closes a connection, and what it is carried by, without a last word.
func abort(c net.Conn) error {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if t, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		core.BestEffort(t.SetLinger(0)) // then it says it
	}
	return c.Close()
}

// ask puts a question behind what waits, and has answered called when all of that
// has been forwarded at the other end, or the connection has ended. Callers hold link.mu.
func (l *Connection) ask(answered func()) {
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
func (l *Connection) answer() error {
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
