package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
)

// Hello begins the connection of a follower.
type Hello struct {
	// Copy is the name of its copy, and At its end; zero: it has nothing yet.
	Copy string          `json:"copy"`
	At   buffer.Position `json:"at"`
}

// Serve keeps the copy of a follower, whose greeting has been read, like the journal, until its connection or ctx
// ends. The first time, the copy becomes one of the configuration once it is complete. ready is called before
// anything is sent.
func (l *Leader) Serve(ctx context.Context, hello Hello, conn io.ReadWriteCloser, ready func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := l.attach(ctx, hello, cancel)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err = ready(); err == nil {
		received := make(chan error, 1)
		go func() {
			received <- l.receive(f, conn)
			cancel()
		}()
		admitted := make(chan struct{})
		go func() {
			defer close(admitted)
			l.admit(ctx, f)
		}()
		err = l.send(ctx, f, conn)
		cancel()
		conn.Close()
		if rerr := <-received; err == nil {
			err = rerr
		}
		<-admitted
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f.cancel = nil
	close(f.ended)
	if !f.required {
		l.drop(f)
	}
	l.report()
	return err
}

// attach makes a follower of a copy that is new, or connects with one again.
func (l *Leader) attach(ctx context.Context, hello Hello, cancel context.CancelFunc) (*follower, error) {
	refuse := func(kind core.Kind, why string) error {
		return &core.Error{Kind: kind, Op: "follow volume", Object: core.Printable(hello.Copy, 40), Err: errors.New(why), Remedy: core.RemedyAgain}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.followers[hello.Copy]
	for f != nil && f.cancel != nil { // its connection is lost, and nobody has noticed it
		f.cancel()
		l.mu.Unlock()
		select {
		case <-f.ended:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f = l.followers[hello.Copy]
	}
	switch {
	case l.over != nil:
		return nil, l.over
	case l.drained, hello.Copy == "", hello.Copy == l.id:
		return nil, refuse(core.Invalid, "it cannot follow this process")
	case f != nil && f.leaving, l.excluded[hello.Copy]:
		return nil, refuse(core.Invalid, ErrExcluded.Error())
	case f == nil && hello.At != (buffer.Position{}):
		return nil, refuse(core.Invalid, "its copy is of an earlier process")
	case f == nil && len(l.followers) >= l.most:
		return nil, refuse(core.Busy, fmt.Sprintf("there are %d copies already", l.most+1))
	case f == nil:
		f = &follower{id: hello.Copy, tail: l.log.Tail()}
		l.followers[f.id] = f
	case !f.tail.Rewind(hello.At):
		return nil, refuse(core.Invalid, "its copy is not the one that was sent")
	}
	f.cancel, f.ended, f.heard = cancel, make(chan struct{}), time.Now()
	f.again, f.durable, f.notes = true, f.acked, 0
	return f, nil
}

// send sends what the journal has, and asks for confirmations.
func (l *Leader) send(ctx context.Context, f *follower, conn io.Writer) error {
	w := bufio.NewWriterSize(conn, pieceSize/4)
	for {
		l.mu.Lock()
		last := time.Now()
		for ctx.Err() == nil && f.sent >= l.round && !f.again && !l.drained && l.over == nil && time.Since(last) < l.timing.Alive {
			core.BestEffort(l.wait(ctx, l.timing.Alive-time.Since(last)))
		}
		f.again = false
		round, durable, drained := l.round, l.durable > f.durable, l.drained
		over := l.over
		var note []byte
		if f.notes != l.notes {
			note, f.notes = l.note, l.notes
		}
		l.mu.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if over != nil { // another copy leads, and this follower may be one of its own
			return over
		}
		if drained {
			return errors.Join(numbers(w, frameDrained), w.Flush())
		}
		// Everything that a round is about was in the journal before.
		for end := l.log.End(); ; {
			p, err := f.tail.Next(pieceSize)
			if err != nil {
				return err
			}
			if p.Index == nil && len(p.Bytes) == 0 {
				break
			}
			if err := writePiece(w, p); err != nil {
				return err
			}
			if !f.tail.At().Before(end) {
				break
			}
		}
		if note != nil {
			if err := writeNote(w, note); err != nil {
				return err
			}
		}
		l.mu.Lock()
		if f.acked >= f.sent {
			f.since = time.Now()
		}
		f.sent = round
		if durable {
			f.durable = round
		}
		l.mu.Unlock()
		if err := errors.Join(writeAsk(w, round, durable), w.Flush()); err != nil {
			return err
		}
	}
}

// receive reads confirmations.
func (l *Leader) receive(f *follower, conn io.Reader) error {
	r := bufio.NewReader(conn)
	for {
		round, at, err := readHave(r)
		if err != nil {
			return err
		}
		if round > 0 {
			f.tail.Keep(at)
		}
		l.mu.Lock()
		f.heard = time.Now()
		if round > f.sent || f.leaving {
			l.mu.Unlock()
			return errFrame
		}
		if round > f.acked {
			f.acked, f.since = round, time.Now()
			l.report()
		}
		l.mu.Unlock()
	}
}

// admit makes a copy that is complete one of the configuration. From before that on, nothing is answered without
// it: it may lead as soon as the record names it.
func (l *Leader) admit(ctx context.Context, f *follower) {
	l.mu.Lock()
	if f.required {
		l.mu.Unlock()
		return
	}
	err := l.confirm(ctx, true, f)
	l.mu.Unlock()
	// From when it is required on, the remote is needed to continue without it.
	for err == nil {
		if _, _, away := l.store.Read(); away == nil {
			break
		}
		err = core.Sleep(ctx, l.timing.Alive)
	}
	l.mu.Lock()
	if err == nil && l.followers[f.id] != f { // it was lost meanwhile
		err = ErrExcluded
	}
	if err == nil {
		f.required = true
		err = l.confirm(ctx, true, nil)
	}
	required := f.required
	l.mu.Unlock()
	if err == nil {
		_, err = l.change(ctx, func(copies []string) []string {
			if l.followers[f.id] != f || f.leaving { // it was excluded before
				return copies
			}
			return append(copies, f.id)
		})
	}
	if err != nil && required { // the record may name it at any time
		l.mu.Lock()
		f.leaving = true
		l.report()
		l.mu.Unlock()
	}
	if err != nil && ctx.Err() == nil {
		l.logger.Warn("admit a copy of the volume", "copy", f.id, "err", err)
	}
}
