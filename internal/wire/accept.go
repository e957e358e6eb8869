package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Gate takes the connections of a listener. It is the one place where they are
// accepted, so that nobody blocks a listener: neither an error, such as want of
// descriptors, nor connections that are opened and say nothing.
type Gate struct {
	// Strangers is how many connections may be open that have not proven what they
	// are: for one more, the oldest goes of the address that has most; 0: 128.
	Strangers int
	// Timeout is how long a connection may take to prove what it is; 0: HandshakeTimeout.
	Timeout time.Duration
	// Most is how many connections may be open, known ones included; further ones wait
	// until one ends; 0: any number.
	Most int
	// Failed is called with each error of the listener that is not its end; nil: nobody is.
	Failed func(error)

	mu        sync.Mutex
	strangers []*stranger // oldest first
}

// stranger is a connection that has not proven what it is.
type stranger struct {
	net.Conn
	from  string
	timer *time.Timer
	known bool
}

const (
	strangersByDefault = 128
	firstAcceptPause   = 5 * time.Millisecond
	longestAcceptPause = time.Second
)

// Serve calls handle with each connection, in a goroutine of its own, until the listener
// is closed. handle calls known once the connection has proven what it is; known reports
// false where that was too late. A connection is closed of which handle returns without
// known; one that is known is handle's own to close. With Gate.Most it counts until handle
// returns.
func (g *Gate) Serve(l net.Listener, handle func(c net.Conn, known func() bool)) {
	var room chan struct{}
	if g.Most > 0 {
		room = make(chan struct{}, g.Most)
	}
	pause := fsutil.Backoff{First: firstAcceptPause, Longest: longestAcceptPause}
	for {
		if room != nil {
			room <- struct{}{}
		}
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
			return
		}
		if err != nil {
			if g.Failed != nil {
				g.Failed(err)
			}
			g.evict() // where descriptors have run out, that gives one back
			if room != nil {
				<-room
			}
			time.Sleep(pause.Next())
			continue
		}
		pause.Reset()
		s := g.enter(c)
		go func() {
			handle(c, func() bool { return g.admit(s) })
			if g.leave(s) {
				c.Close()
			}
			if room != nil {
				<-room
			}
		}()
	}
}

func (g *Gate) enter(c net.Conn) *stranger {
	most, timeout := g.Strangers, g.Timeout
	if most == 0 {
		most = strangersByDefault
	}
	if timeout == 0 {
		timeout = HandshakeTimeout
	}
	s := &stranger{Conn: c, from: hostOf(c.RemoteAddr())}
	g.mu.Lock()
	full := len(g.strangers) >= most
	g.mu.Unlock()
	if full {
		g.evict()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.strangers = append(g.strangers, s)
	s.timer = time.AfterFunc(timeout, func() {
		if g.leave(s) {
			c.Close()
		}
	})
	return s
}

// admit notes that a connection has proven what it is, unless it was given up.
func (g *Gate) admit(s *stranger) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.remove(s) {
		return s.known
	}
	s.known = true
	return true
}

// leave forgets a stranger, and reports whether it was one.
func (g *Gate) leave(s *stranger) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.remove(s)
}

func (g *Gate) remove(s *stranger) bool {
	for i, other := range g.strangers {
		if other == s {
			g.strangers = append(g.strangers[:i], g.strangers[i+1:]...)
			s.timer.Stop()
			return true
		}
	}
	return false
}

// evict closes the oldest stranger of the address that has most of them.
func (g *Gate) evict() {
	g.mu.Lock()
	count, most := map[string]int{}, 0
	for _, s := range g.strangers {
		count[s.from]++
		most = max(most, count[s.from])
	}
	var out *stranger
	for _, s := range g.strangers {
		if count[s.from] == most {
			out = s
			break
		}
	}
	if out != nil {
		g.remove(out)
	}
	g.mu.Unlock()
	if out != nil {
		out.Close()
	}
}

// hostOf is an address without its port; of unix sockets all are one.
func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.Network()
	}
	return host
}
