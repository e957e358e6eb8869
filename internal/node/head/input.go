package head

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/input"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/rpc"
)

// errInputLost is why an attempt ends whose command would take a part of its input for all
// of it.
var errInputLost = &core.Error{
	Kind: core.Permanent, Err: errors.New("the process that passes it standard input, or its terminal, has gone"),
	Remedy: "Run it again, and leave `bee run` running. A job that reads files, by `inputs:`, needs neither -i nor -t.",
}

// jobInput is what the job's command reads from its user: it comes from the controller,
// over one connection at a time.
type jobInput struct {
	started chan struct{} // closed when the command can read
	over    chan struct{} // closed when it no longer can
	end     sync.Once

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	turn     int           // counts connections: the last one counts
	queue    [][]byte
	taken    int64 // bytes that have come
	written  int64 // bytes that the command has been given
	ended    bool  // no more comes
	terminal driver.Terminal
}

func newJobInput() *jobInput {
	return &jobInput{started: make(chan struct{}), over: make(chan struct{}), changed: make(chan struct{})}
}

// change calls f, and wakes those that wait for a change.
func (i *jobInput) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
	close(i.changed)
	i.changed = make(chan struct{})
}

// begin gives a command that has started its input: by a terminal, if it has one, else by to.
func (i *jobInput) begin(to io.WriteCloser, t driver.Terminal) {
	i.mu.Lock()
	i.terminal = t
	i.mu.Unlock()
	close(i.started)
	if t != nil {
		to = t
	}
	go i.feed(to)
}

// close ends the input, as the command has ended or cannot start.
func (i *jobInput) close() { i.end.Do(func() { close(i.over) }) }

// feed writes the input as far as the command reads it.
func (i *jobInput) feed(to io.WriteCloser) {
	for {
		piece, more := i.next()
		if !more {
			break
		}
		core.BestEffort(to.Write(piece)) // a program need not read its input
		i.change(func() { i.written += int64(len(piece)) })
	}
	i.mu.Lock()
	terminal := i.terminal
	i.mu.Unlock()
	if terminal == nil {
		to.Close()
	} else {
		core.BestEffort(terminal.Write([]byte{4})) // control-D; the command may have ended
	}
}

// next waits for a piece of the input; false: there is no more.
func (i *jobInput) next() ([]byte, bool) {
	for {
		i.mu.Lock()
		if len(i.queue) > 0 {
			piece := i.queue[0]
			i.queue = i.queue[1:]
			i.mu.Unlock()
			return piece, true
		}
		ended, changed := i.ended, i.changed
		i.mu.Unlock()
		if ended {
			return nil, false
		}
		select {
		case <-changed:
		case <-i.over:
			return nil, false
		}
	}
}

// take takes a frame of a connection; false: it is not the last one's, or more than was
// granted.
func (i *jobInput) take(turn int, kind byte, data []byte) (good bool) {
	var size driver.TerminalSize
	var resized driver.Terminal
	i.change(func() {
		if good = turn == i.turn; !good {
			return
		}
		switch {
		case kind == nodecall.FrameStdin && len(data) == 0:
			i.ended = true
		case kind == nodecall.FrameStdin && !i.ended:
			if i.taken+int64(len(data))-i.written > input.Window {
				good = false
				return
			}
			i.queue, i.taken = append(i.queue, data), i.taken+int64(len(data))
		case kind == nodecall.FrameResize && len(data) == 4:
			size, resized = driver.TerminalSize{Rows: binary.BigEndian.Uint16(data), Cols: binary.BigEndian.Uint16(data[2:])}, i.terminal
		}
	})
	if resized != nil && size.Rows > 0 && size.Cols > 0 {
		core.BestEffort(resized.Resize(size.Rows, size.Cols)) // the size is a courtesy
	}
	return good
}

// passInput takes the job's input from its controller.
func (h *Head) passInput(ctx context.Context, _ rpc.Caller, r nodecall.InputRequest, a rpc.Answer[nodecall.InputReply]) error {
	i := h.input
	if i == nil {
		return peercall.Refused(nodecall.CallInput.Name, errors.New("the job's command reads nothing from its user"))
	}
	if r.Lost {
		i.mu.Lock()
		ended := i.ended
		i.mu.Unlock()
		if !ended {
			h.end.stop(errInputLost, h.plan.Grace)
		}
		return a.Reply(nodecall.InputReply{})
	}
	select {
	case <-i.started:
	case <-i.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var turn int
	var reply nodecall.InputReply
	i.change(func() {
		i.turn++
		turn, reply = i.turn, nodecall.InputReply{Taken: i.taken, Written: i.written}
	})
	if err := a.Reply(reply); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			kind, data, err := nodecall.ReadFrame(a)
			if err != nil || !i.take(turn, kind, data) {
				return
			}
		}
	}()
	for reported := reply.Written; ; {
		i.mu.Lock()
		written, changed, superseded := i.written, i.changed, turn != i.turn
		i.mu.Unlock()
		if superseded {
			return nil
		}
		if written > reported {
			reported = written
			if err := nodecall.WriteFrame(a, nodecall.FrameWritten, binary.BigEndian.AppendUint64(nil, uint64(written))); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-i.over:
			return nil
		case <-gone:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
