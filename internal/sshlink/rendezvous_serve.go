package sshlink

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/wire"
)

// RendezvousTable holds the connections with other hosts' agents that direct transfers use.
type RendezvousTable struct {
	mu   sync.Mutex
	made map[string]net.Conn
}

// hold takes part in a rendezvous. What comes of it lasts no longer than the stream.
func (m *RendezvousTable) hold(ctx context.Context, _ rpc.Caller, r rendezvousRequest, s rpc.Answer[listening]) error {
	q := r.RendezvousSpec
	id, err := wire.NewIdentity(q.CA, q.Cert, q.Key)
	if err != nil {
		return err
	}
	ctx, end := s.Broken(ctx)
	defer end()
	within, done := context.WithTimeout(ctx, q.Limit)
	defer done()
	var addrs []string
	meet := func() (net.Conn, error) { return wire.Reach(within, id, q.Addrs) }
	if len(q.Addrs) == 0 {
		hidden, err := wire.ListenForPeer(id)
		if err != nil {
			return &core.Error{Kind: core.Unsupported, Op: "listen for another host", Err: err}
		}
		defer hidden.Close()
		addrs, meet = hidden.Addrs(), func() (net.Conn, error) { return hidden.Admit(within) }
	}
	if err := s.Reply(listening{addrs}); err != nil {
		return err
	}
	conn, err := meet()
	if err != nil {
		return rpc.Send(s, met{Failed: rpc.Fail(err)}, rpc.DefaultSize)
	}
	defer conn.Close()
	defer m.keep(q.Name, conn)()
	if err := rpc.Send(s, met{Addr: conn.RemoteAddr().String()}, rpc.DefaultSize); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (m *RendezvousTable) keep(name string, c net.Conn) (forget func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[name] = c
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.made, name)
	}
}

// Route is the connection that the tree of a call uses: the call's own stream, or the
// connection of a rendezvous.
type Route struct {
	io.ReadWriter
	call *rpc.Stream
	conn net.Conn // nil: it is the call's stream
}

// Route returns the route of a call that names a rendezvous, or none.
func (m *RendezvousTable) Route(s *rpc.Stream, via string) (*Route, error) {
	if via == "" {
		return &Route{ReadWriter: s, call: s}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.made[via]
	if c == nil {
		return nil, &core.Error{Kind: core.Transient, Op: "use the way to the other host", Err: errors.New("it is not there any more"), Remedy: core.RemedyConnection}
	}
	return &Route{ReadWriter: losing{c}, call: s, conn: c}, nil
}

// done closes the connection of a rendezvous, whatever has become of the transfer: so
// the other end learns that no more comes, or is taken.
func (w *Route) done() {
	if w.conn != nil {
		w.conn.Close()
	}
}

// Send sends a tree to a receiver that first reports the chunks that it has.
func (w *Route) Send(ctx context.Context, path string) error {
	defer w.done()
	known, err := treesync.Agree(w, path)
	if err == nil {
		err = treesync.SendOver(ctx, w, path, known, w.progress())
	}
	if w.conn == nil {
		return err
	}
	return rpc.Send(w.call, sent{Ended: true, Failed: rpc.Fail(err)}, rpc.DefaultSize)
}

// Receive receives a tree, after a report of the chunks that are here.
func (w *Route) Receive(ctx context.Context, path string, basis *treesync.Basis) error {
	defer w.done()
	if w.conn != nil { // another of these is the sender
		basis = basis.Keyed()
	}
	if err := basis.SendKnown(ctx, w); err != nil {
		return err
	}
	return treesync.ReceiveOver(ctx, w, path, basis)
}

// reportInterval is how often the caller is notified of it.
const reportInterval = 500 * time.Millisecond

// progress returns what reports to the caller how far a tree is, where it is not sent through
// them.
func (w *Route) progress() func(done int64) {
	if w.conn == nil {
		return nil
	}
	next := time.Now()
	return func(done int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(reportInterval)
			core.BestEffort(rpc.Send(w.call, sent{Bytes: done}, maxNote)) // its end is also that of the connection
		}
	}
}

// losing is a connection with another host: whatever befalls it is the way's loss,
// so that what has arrived by then is kept.
type losing struct{ conn net.Conn }

func (l losing) Read(b []byte) (int, error) {
	n, err := l.conn.Read(b)
	return n, lost(err)
}

func (l losing) Write(b []byte) (int, error) {
	n, err := l.conn.Write(b)
	return n, lost(err)
}

func lost(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	// In words only: a file system's errors have the same numbers.
	return &core.Error{Kind: core.Lost, Op: "talk to the other host", Err: errors.New(err.Error()), Remedy: core.RemedyConnection}
}
