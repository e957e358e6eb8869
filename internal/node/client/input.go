package client

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/input"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
)

// reported bounds the call that reports a lost input to a head.
const reported = 10 * time.Second

// Input passes the input of the job's command on, until the command has ended. It reports
// to the head that the rest is lost where it is nil or breaks: the attempt ends then.
func (c *Client) Input(ctx context.Context, in *input.Input) error {
	if in == nil {
		return c.inputLost(ctx)
	}
	s, reply, err := rpc.Open(ctx, c.peer, nodecall.CallInput, nodecall.InputRequest{})
	if err != nil {
		return err
	}
	defer s.Close()
	in.Written(reply.Written)
	if in.Attached != nil {
		defer in.Attached()()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &inputPass{in: in, s: s, written: reply.Written, room: make(chan struct{}, 1)}
	go p.resize(ctx)
	go func() {
		if err := p.send(ctx, reply.Taken); err != nil && ctx.Err() == nil {
			cancel(err)
			s.Close()
		}
	}()
	err = p.hear()
	if lost := context.Cause(ctx); lost != nil && errors.As(lost, new(inputError)) {
		return errors.Join(lost, c.inputLost(context.WithoutCancel(ctx)))
	}
	return err
}

func (c *Client) inputLost(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reported)
	defer cancel()
	s, _, err := rpc.Open(ctx, c.peer, nodecall.CallInput, nodecall.InputRequest{Lost: true})
	if err != nil {
		return err
	}
	return s.Close()
}

// inputError is about an input of which no more can be read.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// inputPass is one connection over which input goes.
type inputPass struct {
	in      *input.Input
	s       io.ReadWriter
	writing sync.Mutex // frames must not mix
	mu      sync.Mutex
	written int64
	room    chan struct{} // gets a value when there may be more
}

func (p *inputPass) write(kind byte, data []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	return nodecall.WriteFrame(p.s, kind, data)
}

// send sends input from an offset on, no more than the head has room for.
func (p *inputPass) send(ctx context.Context, offset int64) error {
	for {
		piece, err := p.in.Next(ctx, offset)
		switch {
		case errors.Is(err, io.EOF):
			return p.write(nodecall.FrameStdin, nil)
		case err != nil && ctx.Err() == nil:
			return inputError{err}
		case err != nil:
			return err
		}
		if offset += int64(len(piece)); !p.awaitRoom(ctx, offset) {
			return context.Cause(ctx)
		}
		if err := p.write(nodecall.FrameStdin, piece); err != nil {
			return err
		}
	}
}

// awaitRoom waits until all before an offset may be sent.
func (p *inputPass) awaitRoom(ctx context.Context, offset int64) bool {
	for {
		p.mu.Lock()
		fits := offset-p.written <= input.Window
		p.mu.Unlock()
		if fits {
			return true
		}
		select {
		case <-p.room:
		case <-ctx.Done():
			return false
		}
	}
}

// resize reports the size of the user's terminal.
func (p *inputPass) resize(ctx context.Context) {
	if p.in.Size == nil {
		return
	}
	for {
		size := p.in.Size()
		raw := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size[0]), size[1])
		if p.write(nodecall.FrameResize, raw) != nil {
			return
		}
		select {
		case <-p.in.Resized:
		case <-ctx.Done():
			return
		}
	}
}

// hear takes what the head reports, until it ends the stream.
func (p *inputPass) hear() error {
	for {
		kind, data, err := nodecall.ReadFrame(p.s)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return lost("pass input to the job", err)
		}
		if kind != nodecall.FrameWritten || len(data) != 8 {
			continue
		}
		offset := int64(binary.BigEndian.Uint64(data) &^ (1 << 63))
		p.mu.Lock()
		p.written = max(p.written, offset)
		p.mu.Unlock()
		p.in.Written(offset)
		select {
		case p.room <- struct{}{}:
		default:
		}
	}
}
