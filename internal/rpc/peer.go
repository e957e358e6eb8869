package rpc

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/wire"
)

// Peer is one end of a connection over which calls are made.
type Peer struct {
	wire    *wire.Peer
	greeted *greeted
}

// NewPeer speaks a protocol over conn. Exactly one of the two ends is the client, which
// has nothing to do with who calls. name is the other end as messages call it. The other
// end's calls wait until Serve.
func NewPeer(conn io.ReadWriteCloser, client bool, name string, v wire.Liveness, p Protocol) (*Peer, error) {
	g := greet(conn, client, name, p)
	w, err := wire.NewPeer(g, client, name, v)
	if err != nil {
		return nil, err
	}
	return &Peer{wire: w, greeted: g}, nil
}

// Dial is NewPeer for a client that answers no calls.
func Dial(conn io.ReadWriteCloser, name string, v wire.Liveness, p Protocol) (*Peer, error) {
	peer, err := NewPeer(conn, true, name, v, p)
	if err != nil {
		return nil, err
	}
	go peer.refuseAll()
	return peer, nil
}

// refuseAll keeps calls that nobody answers from piling up.
func (p *Peer) refuseAll() {
	for {
		s, err := p.wire.AcceptStream()
		if err != nil {
			return
		}
		s.Close()
	}
}

// Name is the other end.
func (p *Peer) Name() string { return p.wire.Name() }

// Done is closed when the connection has ended.
func (p *Peer) Done() <-chan struct{} { return p.wire.Done() }

// Alive reports whether there is a connection that has not ended.
func (p *Peer) Alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// RoundTrip measures how long an answer of the other end's connection takes.
func (p *Peer) RoundTrip() (time.Duration, error) { return p.wire.RoundTrip() }

// Close ends the connection and everything on it.
func (p *Peer) Close() error { return p.wire.Close() }

// explain gives an error of the connection as the caller is to see it.
func (p *Peer) explain(err error) error {
	if refused := p.greeted.refused.Load(); refused != nil && err != nil {
		return refused
	}
	return err
}

func (p *Peer) lost(err error) error {
	return p.explain(&core.Error{Kind: core.Lost, Op: "talk to", Object: p.Name(), Err: err})
}

// Call makes a call, and waits for its reply.
func Call[Req, Resp any](ctx context.Context, p *Peer, m Method[Req, Resp], r Req) (Resp, error) {
	s, resp, err := Open(ctx, p, m, r)
	if err != nil {
		return resp, err
	}
	s.Close()
	return resp, nil
}

// Open makes a call whose stream stays open after the reply, until it is closed or ctx
// ends.
func Open[Req, Resp any](ctx context.Context, p *Peer, m Method[Req, Resp], r Req) (*Stream, Resp, error) {
	s, err := Begin(ctx, p, m, r)
	if err != nil {
		var none Resp
		return nil, none, err
	}
	resp, err := Answered[Resp](s)
	if err != nil {
		s.Close()
		return nil, resp, err
	}
	return s, resp, nil
}

// Begin is Open without waiting for the reply, which Answered gives: what the other end
// is to read first need not wait for a way there and back.
func Begin[Req, Resp any](ctx context.Context, p *Peer, m Method[Req, Resp], r Req) (*Stream, error) {
	raw, err := encode(r, orDefault(m.Request))
	if err != nil {
		return nil, &core.Error{Kind: core.KindOf(err), Op: "call " + m.Name + " of", Object: p.Name(), Err: err}
	}
	under, err := p.wire.OpenStream()
	if err != nil {
		return nil, p.explain(unanswered{err})
	}
	s := newStream(p, under)
	s.await = &awaited{ctx: ctx, method: m.Name, limit: max(orDefault(m.Reply), maxFailure)}
	s.stop = context.AfterFunc(ctx, s.interrupt)
	within := m.Within
	if within == 0 {
		within = DefaultWithin
	}
	if within > 0 {
		s.await.limited(within, s.interrupt)
	}
	header := append([]byte{byte(len(m.Name))}, m.Name...)
	if _, err := under.Write(appendFrame(header, raw)); err != nil {
		err = s.failed(err)
		s.Close()
		return nil, err
	}
	return s, nil
}

// Answered waits for the reply to a call that was begun. Reading, and writing more than a
// little, wait for it as well, and drop its content.
func Answered[Resp any](s *Stream) (Resp, error) {
	var resp Resp
	if s.await == nil {
		return resp, s.refused
	}
	raw, err := s.answer()
	if err == nil {
		if derr := decode(raw, &resp); derr != nil {
			err = &core.Error{Kind: core.Invalid, Op: "read the reply of", Object: s.peer.Name(), Err: fmt.Errorf("to %s: %w", s.method, derr)}
			s.refused = err
		}
	}
	return resp, err
}
