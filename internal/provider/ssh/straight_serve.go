package ssh

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

// meetings are the connections with other hosts' agents that transfers to come will
// go over.
type meetings struct {
	mu   sync.Mutex
	made map[string]net.Conn
}

// hold takes part in a meeting. What comes of it lasts no longer than the stream.
func (m *meetings) hold(ctx context.Context, _ rpc.Caller, r meetRequest, s rpc.Answer[listening]) error {
	q := r.Meeting
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
		door, err := wire.OpenDoor(id)
		if err != nil {
			return &core.Error{Kind: core.Unsupported, Op: "listen for another host", Err: err}
		}
		defer door.Close()
		addrs, meet = door.Addrs(), func() (net.Conn, error) { return door.Admit(within) }
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

func (m *meetings) keep(name string, c net.Conn) (forget func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[name] = c
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.made, name)
	}
}

// way is what the tree of a call travels over: the call's own stream, or the
// connection of a meeting.
type way struct {
	io.ReadWriter
	call *rpc.Stream
	conn net.Conn // nil: it is the call's stream
}

// way gives that of a call which names a meeting, or none.
func (m *meetings) way(s *rpc.Stream, via string) (*way, error) {
	if via == "" {
		return &way{ReadWriter: s, call: s}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.made[via]
	if c == nil {
		return nil, &core.Error{Kind: core.Transient, Op: "use the way to the other host", Err: errors.New("it is not there any more")}
	}
	return &way{ReadWriter: losing{c}, call: s, conn: c}, nil
}

// done closes the connection of a meeting, whatever has become of the transfer: so
// the other end learns that no more comes, or is taken.
func (w *way) done() {
	if w.conn != nil {
		w.conn.Close()
	}
}

// send sends a tree to who tells first what he knows of it.
func (w *way) send(ctx context.Context, path string) error {
	defer w.done()
	known, err := treesync.Agree(w, path)
	if err == nil {
		err = treesync.SendOver(ctx, w, path, known, w.told())
	}
	if w.conn == nil {
		return err
	}
	return rpc.Send(w.call, sent{Ended: true, Failed: rpc.Fail(err)}, rpc.DefaultSize)
}

// receive receives a tree, and tells first what there is of it.
func (w *way) receive(ctx context.Context, path string, basis *treesync.Basis) error {
	defer w.done()
	if w.conn != nil { // another of these is the sender
		basis = basis.Keyed()
	}
	if err := basis.Tell(ctx, w); err != nil {
		return err
	}
	return treesync.ReceiveOver(ctx, w, path, basis)
}

// tellEvery is how often the caller hears of it.
const tellEvery = 500 * time.Millisecond

// told tells the caller how far a tree is, where he does not see it pass.
func (w *way) told() func(done int64) {
	if w.conn == nil {
		return nil
	}
	next := time.Now()
	return func(done int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(tellEvery)
			rpc.Send(w.call, sent{Bytes: done}, maxNote) //nolint:errcheck // its end is also that of the connection
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
	return &core.Error{Kind: core.Lost, Op: "talk to the other host", Err: errors.New(err.Error())}
}
