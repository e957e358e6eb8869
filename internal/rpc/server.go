package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Server is a table of calls with their handlers.
type Server struct {
	calls map[string]entry
	log   *slog.Logger

	mu      sync.Mutex
	open    int           // calls of Handle that have no answer yet
	settled chan struct{} // closed once there are none; nil: nobody waits
}

// entry is a call whose types are known to the function alone.
type entry struct {
	by      Role
	stream  bool
	request int
	reply   int
	answer  func(ctx context.Context, c Caller, raw []byte, s *Stream) error
}

// NewServer makes a table without calls. Faults of handlers are logged; nil: nowhere.
func NewServer(log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{calls: map[string]entry{}, log: log}
}

// Handle has a call answered by what fn returns.
func Handle[Req, Resp any](s *Server, m Method[Req, Resp], fn func(ctx context.Context, c Caller, r Req) (Resp, error)) {
	register(s, m, false, func(ctx context.Context, c Caller, r Req, a Answer[Resp]) error {
		resp, err := fn(ctx, c, r)
		if err != nil {
			return err
		}
		return a.Reply(resp)
	})
}

// HandleStream has a call answered by fn, which replies where it sees fit, and has the
// stream until it returns. An error before the reply goes to the caller. The context ends
// with the connection.
func HandleStream[Req, Resp any](s *Server, m Method[Req, Resp], fn func(ctx context.Context, c Caller, r Req, a Answer[Resp]) error) {
	register(s, m, true, fn)
}

func register[Req, Resp any](s *Server, m Method[Req, Resp], stream bool, fn func(ctx context.Context, c Caller, r Req, a Answer[Resp]) error) {
	if _, twice := s.calls[m.Name]; twice || m.Name == "" || len(m.Name) > maxName || m.By == 0 {
		panic("rpc: the call " + m.Name + " is registered twice, or has no name, or is for nobody")
	}
	s.calls[m.Name] = entry{by: m.By, stream: stream, request: orDefault(m.Request), reply: orDefault(m.Reply), answer: func(ctx context.Context, c Caller, raw []byte, st *Stream) error {
		var r Req
		if err := decode(raw, &r); err != nil {
			return &core.Error{Kind: core.Invalid, Op: "read the request of call", Object: m.Name, Err: err}
		}
		return fn(ctx, c, r, Answer[Resp]{st})
	}}
}

// Answer is the stream of a call with a handler.
type Answer[Resp any] struct{ *Stream }

// Reply answers the call; the stream stays open.
func (a Answer[Resp]) Reply(r Resp) error { return a.reply(r) }

func (s *Stream) reply(v any) error {
	raw, err := encode(v, s.limit)
	if err != nil {
		return err
	}
	s.replied = true
	_, err = s.Stream.Write(appendFrame([]byte{answerReply}, raw))
	return err
}

func (s *Stream) refuse(err error) {
	raw, eerr := encode(Fail(err), maxFailure)
	if eerr != nil {
		return
	}
	s.replied = true
	core.BestEffort(s.Stream.Write(appendFrame([]byte{answerFailure}, raw))) // the caller notices the end of the stream
}

// Serve answers the calls of the other end, which is from, until the connection or ctx
// ends.
func (p *Peer) Serve(ctx context.Context, s *Server, from Caller) error {
	from.Peer = p
	stop := context.AfterFunc(ctx, func() { p.Close() })
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	places := make(chan struct{}, maxStreams)
	for {
		under, err := p.wire.AcceptStream()
		if err != nil {
			return p.explain(err)
		}
		st := newStream(p, under)
		select {
		case places <- struct{}{}:
		default:
			go func() {
				defer st.Close()
				st.Stream.SetDeadline(time.Now().Add(farewell))
				st.refuse(&core.Error{Kind: core.Busy, Op: "call", Err: fmt.Errorf("%d calls of this connection are being answered", maxStreams), Remedy: core.RemedyAgain})
			}()
			continue
		}
		go func() {
			defer func() { <-places }()
			defer st.Close()
			s.answer(ctx, from, st)
		}()
	}
}

// Settled returns a channel that is closed once no call of Handle waits for its answer.
// A process that ends before would have its callers believe that the call has failed.
func (s *Server) Settled() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled == nil {
		s.settled = make(chan struct{})
	}
	settled := s.settled
	s.settle(0)
	return settled
}

// settle counts calls that begin or have been answered.
func (s *Server) settle(n int) {
	if s.open += n; s.open == 0 && s.settled != nil {
		close(s.settled)
		s.settled = nil
	}
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(n)
}

func (s *Server) answer(ctx context.Context, from Caller, st *Stream) {
	err := s.dispatch(ctx, from, st)
	if st.counted {
		defer s.count(-1)
	}
	if st.replied {
		return
	}
	if err == nil {
		err = errors.New("the call has no reply")
	}
	st.refuse(err)
}

func (s *Server) dispatch(ctx context.Context, from Caller, st *Stream) (err error) {
	st.Stream.SetReadDeadline(time.Now().Add(requestWithin))
	name, err := readName(st.r)
	if err != nil {
		return err
	}
	st.method = name
	e, known := s.calls[name]
	if !known {
		return &core.Error{Kind: core.Unsupported, Op: "answer call", Object: core.Printable(name, maxName), Err: errors.New("there is no such call here"), Remedy: core.RemedyVersions}
	}
	if e.by&from.Role == 0 {
		return &core.Error{Kind: core.Invalid, Op: "answer call", Object: name, Err: fmt.Errorf("a %v may not make it, only a %v", from.Role, e.by), Remedy: core.RemedyVersions}
	}
	raw, err := readFrame(st.r, e.request)
	if err != nil {
		return err
	}
	st.Stream.SetReadDeadline(time.Time{})
	st.limit = e.reply
	if !e.stream {
		s.count(1)
		st.counted = true
	}
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("a call ended in a fault", "call", name, "caller", from.Role.String(), "fault", fault, "stack", string(debug.Stack()))
			err = &core.Error{Kind: core.Permanent, Op: "answer call", Object: name, Err: errors.New("a fault of bee's own, which its log there describes"), Remedy: "Report this with the log."}
		}
	}()
	return e.answer(ctx, from, raw, st)
}

func readName(r io.ByteReader) (string, error) {
	n, err := r.ReadByte()
	if err != nil {
		return "", err
	}
	if n == 0 || n > maxName {
		return "", &core.Error{Kind: core.Invalid, Op: "read call", Err: fmt.Errorf("a name of %d bytes", n), Remedy: core.RemedyVersions}
	}
	name := make([]byte, n)
	for i := range name {
		if name[i], err = r.ReadByte(); err != nil {
			return "", err
		}
	}
	return string(name), nil
}
