// Package wire makes the connections of BEE's processes: a unix socket on a host, TCP
// with mutual TLS between hosts, or a pipe through ssh, each of which carries many
// streams. It knows nothing of what they are for: see package rpc.
package wire

import (
	"errors"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/hashicorp/yamux"
)

// Peer is one end of a connection with streams (yamux). Both ends may open them.
type Peer struct {
	session *yamux.Session
	name    string
}

// Name is the other end.
func (p *Peer) Name() string { return p.name }

// Done is closed when the connection has ended.
func (p *Peer) Done() <-chan struct{} { return p.session.CloseChan() }

// RoundTrip asks the other end for an answer, and reports how long it took.
func (p *Peer) RoundTrip() (time.Duration, error) { return p.session.Ping() }

// Close ends the connection and everything on it.
func (p *Peer) Close() error { return p.session.Close() }

// OpenStream opens a stream, of which the other end learns with what is sent first.
func (p *Peer) OpenStream() (*Stream, error) { return p.stream(p.session.OpenStream()) }

// AcceptStream waits for a stream that the other end opens.
func (p *Peer) AcceptStream() (*Stream, error) { return p.stream(p.session.AcceptStream()) }

func (p *Peer) stream(raw *yamux.Stream, err error) (*Stream, error) {
	if err != nil {
		return nil, p.lost(err)
	}
	return &Stream{Conn: raw, peer: p}, nil
}

func (p *Peer) lost(err error) error {
	return &core.Error{Kind: core.Lost, Op: "talk to", Object: p.name, Err: err}
}

// Stream is one stream of a connection.
type Stream struct {
	net.Conn
	peer *Peer
}

// Read reads what the other end sends.
func (s *Stream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	return n, s.lost(err)
}

// maxWrite bounds the pieces in which data is sent, so that the streams of one
// connection take turns.
const maxWrite = 64 << 10

// Write sends data, waiting while the other end does not read.
func (s *Stream) Write(b []byte) (int, error) {
	total := 0
	for len(b) > 0 {
		n, err := s.Conn.Write(b[:min(len(b), maxWrite)])
		total += n
		if err != nil {
			return total, s.lost(err)
		}
		b = b[n:]
	}
	return total, nil
}

// lost distinguishes a connection that broke from other ends of a stream.
func (s *Stream) lost(err error) error {
	broke := errors.Is(err, yamux.ErrSessionShutdown) || errors.Is(err, yamux.ErrConnectionReset)
	if broke || errors.Is(err, yamux.ErrStreamClosed) && s.peer.session.IsClosed() {
		return s.peer.lost(errors.New("the connection broke"))
	}
	return err
}
