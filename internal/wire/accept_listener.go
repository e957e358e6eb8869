package wire

import (
	"net"
	"sync"
)

// Listener returns a listener for a server that accepts by itself, such as that of net/http.
// Its connections are of type *Guarded, and of strangers until Known was called.
func (g *Gate) Listener(l net.Listener) net.Listener {
	a := &gateListener{Listener: l, conns: make(chan net.Conn), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		g.Serve(l, func(c net.Conn, known func() bool) {
			closed := make(chan struct{})
			select {
			case a.conns <- &Guarded{Conn: c, known: known, closed: sync.OnceFunc(func() { close(closed) })}:
				<-closed
			case <-a.ended:
			}
		})
	}()
	return a
}

type gateListener struct {
	net.Listener
	conns chan net.Conn
	ended chan struct{}
}

// Accept implements net.Listener.
func (a *gateListener) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.ended:
		return nil, net.ErrClosed
	}
}

// Guarded is a connection that a gate may close until Known was called.
type Guarded struct {
	net.Conn
	known  func() bool
	closed func()
}

// Known notes that the connection has proven what it is. It reports false where the gate has
// given the connection up.
func (c *Guarded) Known() bool { return c.known() }

// Close implements net.Conn.
func (c *Guarded) Close() error {
	c.closed()
	return c.Conn.Close()
}
