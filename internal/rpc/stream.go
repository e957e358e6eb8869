package rpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/wire"
)

// maxAhead is how much is written before the reply to a call is read: an end that has
// refused the call reads no more than fits into the stream's window.
const maxAhead = 128 << 10

// Stream is one call's stream.
type Stream struct {
	*wire.Stream
	peer   *Peer
	r      *bufio.Reader
	method string
	stop   func() bool // of the caller's context

	// Of the caller: await is not nil until the reply was read, refused is what it was
	// if that is a failure, ahead counts bytes that were written meanwhile.
	await   *awaited
	ahead   int
	refused error

	// Of the handler.
	replied bool
	counted bool // in the server's calls without an answer
	limit   int  // of its reply
}

// awaited is a reply that was not read yet.
type awaited struct {
	ctx    context.Context // the call's, as long as it lasts
	method string
	limit  int
	within time.Duration // 0: no limit
	timer  *time.Timer
	late   atomic.Bool // set when it is over
	// failure is set once the answer was read, and is a failure.
	failure bool
}

// unanswered is the error of a call that the other end may have heard, and whose answer
// has not come.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// Unanswered reports whether a call ended without an answer: whether the other end has done
// what it asks for is not known.
func Unanswered(err error) bool { return errors.As(err, new(unanswered)) }

// limited ends the wait after a time.
func (a *awaited) limited(within time.Duration, interrupt func()) {
	a.within = within
	a.timer = time.AfterFunc(within, func() {
		a.late.Store(true)
		interrupt()
	})
}

func newStream(p *Peer, under *wire.Stream) *Stream {
	return &Stream{Stream: under, peer: p, r: bufio.NewReader(under)}
}

// interrupt has all readers and writers return.
func (s *Stream) interrupt() { s.Stream.SetDeadline(time.Unix(1, 0)) }

// failed gives an error of the call as its caller is to see it.
func (s *Stream) failed(err error) error {
	if a := s.await; a != nil && a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	} else if a != nil && a.late.Load() {
		return &core.Error{
			Kind: core.Transient, Op: "wait for the answer of", Object: s.peer.Name(),
			Err: unanswered{fmt.Errorf("none came to %s within %v", a.method, a.within)},
		}
	} else if a != nil && a.failure {
		return err
	}
	if e, ours := errors.AsType[*core.Error](err); ours {
		if e.Kind == core.Lost {
			return s.peer.explain(unanswered{err})
		}
		return err
	}
	return s.peer.lost(unanswered{err})
}

// errLate is about an answer that came at the very end of the time for it.
var errLate = errors.New("the time for the answer is over")

// First byte of an answer.
const (
	answerReply   = 'r'
	answerFailure = 'e'
)

// answer reads the answer to a call: the reply, still as JSON, or the failure.
func (s *Stream) answer() ([]byte, error) {
	raw, err := s.readAnswer()
	a := s.await
	if a.timer != nil && !a.timer.Stop() && err == nil {
		err = errLate
	}
	if err != nil {
		raw, err = nil, s.failed(err)
	}
	s.await, s.method, s.refused = nil, a.method, err
	return raw, err
}

func (s *Stream) readAnswer() ([]byte, error) {
	kind, err := s.r.ReadByte()
	if err != nil {
		return nil, err
	}
	switch kind {
	case answerReply:
		return readFrame(s.r, s.await.limit)
	case answerFailure:
		raw, err := readFrame(s.r, maxFailure)
		if err != nil {
			return nil, err
		}
		var f Failure
		if err := decode(raw, &f); err != nil || f == (Failure{}) {
			return nil, &core.Error{Kind: core.Invalid, Op: "read the answer of", Object: s.peer.Name(), Err: errors.Join(errors.New("it is no answer"), err)}
		}
		s.await.failure = true
		return nil, f.Err()
	}
	return nil, &core.Error{Kind: core.Invalid, Op: "read the answer of", Object: s.peer.Name(), Err: fmt.Errorf("it begins with %#x", kind), Remedy: core.RemedyVersions}
}

// settle reads the answer if that was not done.
func (s *Stream) settle() error {
	if s.await == nil {
		return s.refused
	}
	_, err := s.answer()
	return err
}

// Read reads what follows the answer.
func (s *Stream) Read(b []byte) (int, error) {
	if err := s.settle(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(b)
	if err != nil && core.IsKind(err, core.Lost) {
		err = s.peer.explain(err)
	}
	return n, err
}

// Write sends data, waiting while the other end does not read.
func (s *Stream) Write(b []byte) (int, error) {
	if s.await != nil {
		if s.ahead += len(b); s.ahead > maxAhead {
			if err := s.settle(); err != nil {
				return 0, err
			}
		}
	}
	return s.Stream.Write(b)
}

// Broken gives a context that ends also when the other end closes the stream.
// It is for handlers that only send: it takes over reading.
func (s *Stream) Broken(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		io.Copy(io.Discard, s)
	}()
	return ctx, cancel
}

// Close ends the stream.
func (s *Stream) Close() error {
	if s.stop != nil {
		s.stop()
	}
	if a := s.await; a != nil && a.timer != nil {
		a.timer.Stop()
	}
	return s.Stream.Close()
}
