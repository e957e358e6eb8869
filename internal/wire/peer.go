// Package wire is how BEE's processes talk: calls and raw streams over one
// connection, which is a unix socket on a host, or TCP with mutual TLS between
// hosts, or a pipe through ssh. It knows nothing of what the calls mean.
//
// Each call is a stream of its own (yamux). It begins with a header of the
// caller, four bytes of length and JSON, which the other side answers with one
// like it; after that the stream is the two sides' own.
package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/hashicorp/yamux"
)

// maxHeader bounds a header, so that a stranger cannot make us allocate.
const maxHeader = 16 << 20

// Peer is one end of a connection. Both ends may call.
type Peer struct {
	session *yamux.Session
	name    string
}

// Handler answers a call: by Reply, or by an error that goes to the caller.
// The stream is closed when it returns, its context ends with the connection.
type Handler func(ctx context.Context, method string, s *Stream) error

// Name is the other end.
func (p *Peer) Name() string { return p.name }

// Done is closed when the connection has ended.
func (p *Peer) Done() <-chan struct{} { return p.session.CloseChan() }

// RoundTrip asks the other end for an answer, and tells how long it took.
func (p *Peer) RoundTrip() (time.Duration, error) { return p.session.Ping() }

// Close ends the connection and everything on it.
func (p *Peer) Close() error { return p.session.Close() }

// OpenStream opens a stream, of which the other end learns with what is sent first.
func (p *Peer) OpenStream() (*Stream, error) {
	raw, err := p.session.OpenStream()
	if err != nil {
		return nil, p.lost(err)
	}
	return &Stream{Conn: raw, peer: p, r: bufio.NewReader(raw)}, nil
}

// AcceptStream waits for a stream that the other end opens.
func (p *Peer) AcceptStream() (*Stream, error) {
	raw, err := p.session.AcceptStream()
	if err != nil {
		return nil, p.lost(err)
	}
	return &Stream{Conn: raw, peer: p, r: bufio.NewReader(raw)}, nil
}

// Serve answers the other end's calls until the connection ends.
func (p *Peer) Serve(ctx context.Context, handle Handler) error {
	stop := context.AfterFunc(ctx, func() { p.session.Close() })
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		raw, err := p.session.AcceptStream()
		if err != nil {
			return p.lost(err)
		}
		go func() {
			s := &Stream{Conn: raw, peer: p, r: bufio.NewReader(raw)}
			defer raw.Close()
			method, err := s.next()
			if err == nil {
				err = handle(ctx, method, s)
			}
			if !s.replied {
				s.reply(nil, err) //nolint:errcheck // the caller notices the end of the stream
			}
		}()
	}
}

// Call makes a call and decodes its result into out, which may be nil.
func (p *Peer) Call(ctx context.Context, method string, in, out any) error {
	s, err := p.Open(ctx, method, in, out)
	if err != nil {
		return err
	}
	return s.Close()
}

// Open makes a call whose stream stays open for both sides to use.
func (p *Peer) Open(ctx context.Context, method string, in, out any) (*Stream, error) {
	s, err := p.Begin(ctx, method, in)
	if err != nil {
		return nil, err
	}
	if err := s.Answered(out); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Begin is Open without waiting for the answer, which Answered gives: what the other side
// is to read first thus need not wait for a way there and back.
func (p *Peer) Begin(ctx context.Context, method string, in any) (*Stream, error) {
	raw, err := p.session.OpenStream()
	if err != nil {
		return nil, p.lost(err)
	}
	s := &Stream{Conn: raw, peer: p, r: bufio.NewReader(raw), awaits: true}
	s.stop = context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // it cannot fail
	s.failed = func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, ours := errors.AsType[*core.Error](err); ours {
			return err
		}
		return p.lost(err)
	}
	params, err := json.Marshal(in)
	if err == nil {
		err = s.write(request{method, params})
	}
	if err != nil {
		s.Close()
		return nil, s.failed(err)
	}
	return s, nil
}

func (p *Peer) lost(err error) error {
	return &core.Error{Kind: core.Lost, Op: "talk to", Object: p.name, Err: err}
}

// Stream is one call's stream.
type Stream struct {
	net.Conn
	peer    *Peer
	r       *bufio.Reader
	stop    func() bool
	method  string
	params  json.RawMessage
	replied bool

	// awaits tells the caller that the answer has not been read, refused what it was if
	// that is a failure; ahead is what he has written meanwhile, in bytes.
	awaits  bool
	ahead   int
	refused error
	failed  func(error) error // as the caller is to see it
}

type request struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

type response struct {
	Error  *remoteError    `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// remoteError is a core.Error on its way.
type remoteError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Read reads what follows the header.
func (s *Stream) Read(b []byte) (int, error) {
	if err := s.Answered(nil); err != nil {
		return 0, err
	}
	n, err := s.r.Read(b)
	return n, s.lost(err)
}

// maxWrite bounds the pieces in which data is sent, so that the streams of one
// connection take turns.
const maxWrite = 64 << 10

// maxAhead is how much is written before the answer to a call is read: who has refused it
// takes no more than fits into the stream's window.
const maxAhead = 128 << 10

// Write sends data, waiting while the other end does not read.
func (s *Stream) Write(b []byte) (int, error) {
	if s.ahead += len(b); s.awaits && s.ahead > maxAhead {
		if err := s.Answered(nil); err != nil {
			return 0, err
		}
	}
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

// lost tells a connection that broke from other ends of a stream.
func (s *Stream) lost(err error) error {
	broke := errors.Is(err, yamux.ErrSessionShutdown) || errors.Is(err, yamux.ErrConnectionReset)
	if broke || errors.Is(err, yamux.ErrStreamClosed) && s.peer.session.IsClosed() {
		return s.peer.lost(errors.New("the connection broke"))
	}
	return err
}

// Broken gives a context that ends also when the other end closes the stream.
// It is for handlers that only send: it takes over reading.
func (s *Stream) Broken(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		io.Copy(io.Discard, s) //nolint:errcheck // any end is the end
	}()
	return ctx, cancel
}

// Close ends the stream.
func (s *Stream) Close() error {
	if s.stop != nil {
		s.stop()
	}
	return s.Conn.Close()
}

func (s *Stream) next() (string, error) {
	var r request
	if err := s.read(&r); err != nil {
		return "", err
	}
	s.method, s.params = r.Method, r.Params
	return r.Method, nil
}

// Params decodes what the caller gave.
func (s *Stream) Params(into any) error {
	if err := json.Unmarshal(s.params, into); err != nil {
		return &core.Error{Kind: core.Invalid, Op: "read call", Object: s.method, Err: err}
	}
	return nil
}

// Reply answers the call with a result; the stream stays open.
func (s *Stream) Reply(result any) error { return s.reply(result, nil) }

func (s *Stream) reply(result any, failure error) error {
	s.replied = true
	var r response
	if failure != nil {
		r.Error = &remoteError{core.KindOf(failure).String(), failure.Error(), core.Remedy(failure)}
	} else {
		raw, err := json.Marshal(result)
		if err != nil {
			return err
		}
		r.Result = raw
	}
	return s.write(r)
}

// Answered waits for the answer to a call that was begun, and decodes its result into
// out, which may be nil. Read, and Write of more than a little, do that as well.
func (s *Stream) Answered(out any) error {
	if !s.awaits {
		return s.refused
	}
	s.awaits = false
	var r response
	err := s.read(&r)
	switch {
	case err != nil:
	case r.Error != nil:
		err = &core.Error{Kind: core.KindNamed(r.Error.Kind), Err: errors.New(r.Error.Message), Remedy: r.Error.Remedy}
	case out != nil:
		err = json.Unmarshal(r.Result, out)
	}
	if err != nil {
		s.refused = s.failed(err)
	}
	return s.refused
}

func (s *Stream) write(v any) error { return WriteMessage(s.Conn, v) }

func (s *Stream) read(v any) error { return ReadMessage(s.r, v) }

// WriteMessage writes a value as four bytes of length and JSON, at once.
func WriteMessage(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(raw) > maxHeader {
		return fmt.Errorf("message of %d bytes is too long", len(raw))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...))
	return err
}

// ReadMessage reads what WriteMessage wrote.
func ReadMessage(r io.Reader, into any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxHeader {
		return fmt.Errorf("message of %d bytes is too long", n)
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(raw) < int(n) {
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(raw, into)
}
