package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Secure is a connection between two nodes by mutual TLS. Each write to it leaves with
// one system call, of however many records it consists, and the other end is woken for
// all of them at once. That is for frames, with which someone is woken in turn; what only
// streams is better off with Conn, as the copy costs more than the calls.
type Secure struct {
	*tls.Conn
	beneath *gather
	client  bool
	writes  atomic.Int32 // that are not over
	spare   *sync.Pool   // of the identity's buffers
}

// SecureClient is the end of who connects to the node of that name, for that purpose.
// The handshake is to be made.
func (i *Identity) SecureClient(c net.Conn, name, purpose string) *Secure {
	config := i.Client(name)
	config.NextProtos = []string{purpose}
	g := &gather{Conn: c}
	return &Secure{Conn: tls.Client(g, config), beneath: g, client: true, spare: &i.spare}
}

// SecureServer is the end of who was connected to, which may be for any of these
// purposes: NegotiatedProtocol of the connection's state reports for which.
func (i *Identity) SecureServer(c net.Conn, purposes ...string) *Secure {
	config := i.Server()
	config.NextProtos = purposes
	g := &gather{Conn: c}
	return &Secure{Conn: tls.Server(g, config), beneath: g, spare: &i.spare}
}

// Carry has by replace the connection beneath TLS. Nobody reads or writes meanwhile.
func (s *Secure) Carry(by func(net.Conn) (net.Conn, error)) error {
	c, err := by(s.beneath.Conn)
	if err == nil {
		s.beneath.Conn = c
	}
	return err
}

// NetConn is the connection beneath TLS.
func (s *Secure) NetConn() net.Conn { return s.beneath.Conn }

// mostInRecord is what one record of TLS carries, in bytes.
const mostInRecord = 16 << 10

// Write sends data at once.
func (s *Secure) Write(b []byte) (int, error) {
	if len(b) <= mostInRecord {
		return s.Conn.Write(b)
	}
	s.writes.Add(1)
	defer s.writes.Add(-1)
	room, _ := s.spare.Get().(*[]byte)
	if room == nil {
		room = new([]byte)
	}
	defer s.spare.Put(room)
	*room = slices.Grow((*room)[:0], len(b)+len(b)/64+512) // with what TLS adds
	s.beneath.hold(room)
	n, err := s.Conn.Write(b)
	if e := s.beneath.release(); e != nil {
		return 0, e
	}
	return n, err
}

// Close ends the connection. As with TLS, one to which someone is writing ends without
// a last word, which would have to wait for that.
func (s *Secure) Close() error {
	if s.writes.Load() > 0 {
		return s.beneath.Conn.Close()
	}
	return s.Conn.Close()
}

// inClear is what the two ends send each other when they leave TLS.
const inClear = 'c'

// Clear leaves TLS, now that either end knows the other, and gives the connection that was
// beneath it, on which both continue in clear. Both ends call it, after all that they have
// written before was read, and nobody else reads or writes meanwhile. It is given up
// with ctx, and closes nothing.
//
// The client says a byte by TLS, the server one by TLS, and then the client one in clear.
// As TLS may read ahead, nobody sends in clear before the other has read his last by TLS:
// the client knows that when it has the server's byte, which was the answer to its own, and
// the server when it has the client's second.
func (s *Secure) Clear(ctx context.Context) (net.Conn, error) {
	c := s.NetConn()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	var err error
	for i, by := range []net.Conn{s, s, c} {
		turn := hearClear
		if s.client == (i%2 == 0) {
			turn = sayClear
		}
		if err = turn(by); err != nil {
			break
		}
	}
	switch {
	case !stop():
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("go on in clear: %w", err)
	}
	return c, nil
}

func sayClear(c net.Conn) error {
	_, err := c.Write([]byte{inClear})
	return err
}

func hearClear(c net.Conn) error {
	var word [1]byte
	if _, err := c.Read(word[:]); err != nil {
		return err
	}
	if word[0] != inClear {
		return fmt.Errorf("the other end says %q", word[0])
	}
	return nil
}

// gather is a connection that keeps what is written to it while it is held.
type gather struct {
	net.Conn
	mu   sync.Mutex
	kept *[]byte // nil: it is not held
	err  error   // of what was kept and did not get through: TLS cannot continue behind it
}

func (g *gather) hold(room *[]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = room
}

// release writes what was kept.
func (g *gather) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := g.kept
	if g.kept = nil; g.err == nil && len(*kept) > 0 {
		_, g.err = g.Conn.Write(*kept)
	}
	return g.err
}

// Write may be TLS's own as well, from where it reads.
func (g *gather) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return 0, g.err
	case g.kept == nil:
		return g.Conn.Write(b)
	}
	*g.kept = append(*g.kept, b...)
	return len(b), nil
}
