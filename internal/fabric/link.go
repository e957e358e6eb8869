package fabric

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// On a link each frame is preceded by its length, four bytes, as QEMU's stream
// sockets have it. A length of nothing is a sign of life.
const lengthSize = 4

// Bounds of a link.
const (
	// queueLimit is the most that waits for a slow link, in bytes: some tens
	// of milliseconds at 1 Gbit/s, which a TCP in the guests can work with.
	queueLimit = 4 << 20
	// A link that is silent for so long is broken: so one that breaks without a
	// word is there again, or told of, within two seconds.
	beat    = 250 * time.Millisecond
	silence = time.Second
)

var errSilent = errors.New("nothing is heard from there any more")

// Link is the connection to one other host's switch.
type Link struct {
	f    *Fabric
	host int // at the other end
	peer *peer
	c    net.Conn

	out     *outbox
	done    chan struct{}
	once    sync.Once
	err     error
	begun   time.Time
	heard   atomic.Int64 // last, in nanoseconds since then
	waiting atomic.Bool  // for something to come, not for the guest to take it
}

// Link uses an established connection to another host's switch, in place of an
// earlier one, until it breaks or is silent for too long.
func (f *Fabric) Link(host int, c net.Conn) (*Link, error) {
	if host < 0 || host >= len(f.peers) || f.peers[host] == nil {
		return nil, fmt.Errorf("link to host %d: there is none", host)
	}
	if t, ok := c.(interface{ SetNoDelay(nodelay bool) error }); ok {
		t.SetNoDelay(true) //nolint:errcheck // it is the default
	}
	l := &Link{f: f, host: host, peer: f.peers[host], c: c, done: make(chan struct{}), begun: time.Now()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.New("the fabric is closed")
	}
	l.out = newOutbox(f.store)
	if old := l.peer.link.Swap(l); old != nil {
		go old.close()
	}
	go l.write()
	go l.read()
	go l.watch()
	return l, nil
}

// Done is closed when the link has broken.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err tells why, after Done.
func (l *Link) Err() error { return l.err }

// Heard tells when the other end was heard last.
func (l *Link) Heard() time.Time { return l.begun.Add(time.Duration(l.heard.Load())) }

func (l *Link) hear() { l.heard.Store(int64(time.Since(l.begun))) }

func (l *Link) close() { l.fail(net.ErrClosed) }

func (l *Link) fail(err error) {
	l.once.Do(func() {
		l.peer.link.CompareAndSwap(l, nil)
		l.err = err
		l.c.Close()
		close(l.done)
		if !errors.Is(err, net.ErrClosed) {
			l.f.log.Warn("the fabric lost a link", "to", l.f.hostName(l.host), "err", err)
		}
	})
}

// write sends what waits, many frames at once, while more comes in behind.
func (l *Link) write() {
	defer l.out.close()
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		var err error
		select {
		case <-l.out.wake:
			err = l.out.drain(func(frames []byte) error { _, err := l.c.Write(frames); return err })
		case <-beats.C:
			_, err = l.c.Write(make([]byte, lengthSize))
		case <-l.done:
			return
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// readBuffer holds the largest frame, and takes many small ones at once. There
// is one for each link, of which a host may have many.
const readBuffer = 72 << 10

func (l *Link) read() {
	b := &burst{f: l.f, from: way(l.host), toGuest: newBatch()}
	buf := make([]byte, readBuffer)
	for have := 0; ; {
		l.waiting.Store(true)
		n, err := l.c.Read(buf[have:])
		if l.waiting.Store(false); n > 0 {
			l.hear()
		}
		have += n
		used, wrong := l.take(b, buf[:have])
		if err = cmp.Or(wrong, err); err != nil {
			l.fail(err)
			return
		}
		have = copy(buf, buf[used:have]) // the beginning of a frame
	}
}

// take forwards the frames that are there as a whole, and tells how many bytes
// they were.
func (l *Link) take(b *burst, in []byte) (used int, err error) {
	defer b.through()
	frames, bytes := 0, 0
	for len(in)-used >= lengthSize {
		n := int(binary.BigEndian.Uint32(in[used:]))
		if n != 0 && (n < l.f.header+ethernetHeader || n > maxFrame) {
			return used, fmt.Errorf("a frame of %d bytes cannot be", n)
		}
		if len(in)-used-lengthSize < n {
			break
		}
		used += lengthSize
		if n > 0 {
			b.forward(in[used:][:n])
			frames++
			bytes += n
		}
		used += n
	}
	l.peer.received.add(frames, bytes)
	return used, nil
}

// watch ends a link over which nothing comes any more.
func (l *Link) watch() {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case now := <-ticker.C:
			// When we were stopped ourselves, the other is given its time.
			stopped := now.Sub(last) > 2*beat
			last = now
			if stopped || !l.waiting.Load() {
				l.hear()
			} else if time.Since(l.Heard()) >= silence {
				l.fail(errSilent)
				return
			}
		case <-l.done:
			return
		}
	}
}
