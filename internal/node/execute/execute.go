// Package execute is the far side of client.Exec: a command's standard streams
// and signals over a stream of frames, wherever the command runs. It starts
// nothing itself.
package execute

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

// Execution is one command over a stream.
type Execution struct {
	s     io.ReadWriter
	mu    sync.Mutex // frames must not mix
	stdio stdio
}

// New makes the command's standard streams. Its caller calls Close.
func New(s io.ReadWriter, r nodecall.ExecRequest) (*Execution, error) {
	io, err := openStdio(r)
	return &Execution{s: s, stdio: io}, err
}

// Close gives the streams up.
func (e *Execution) Close() { e.stdio.close() }

// Streams are the standard streams of the command c, or a terminal. Attend closes them.
func (e *Execution) Streams(c *driver.Command) {
	c.Stdin, c.Stdout, c.Stderr = e.stdio.theirs[0], e.stdio.theirs[1], e.stdio.theirs[2]
	c.Terminal = e.stdio.size
}

func (e *Execution) write(kind byte, data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return nodecall.WriteFrame(e.s, kind, data)
}

func (e *Execution) end(x nodecall.ExitFrame) error {
	raw, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return e.write(nodecall.FrameExit, raw)
}

// Place is where commands run: by Start, with Env and Dir for those that
// name none.
type Place struct {
	Start func(context.Context, driver.Command) (driver.Process, error)
	Env   []string
	Dir   string
}

// Run runs a command to its end for the caller at the other end of a stream.
func (p Place) Run(ctx context.Context, s io.ReadWriter, r nodecall.ExecRequest) error {
	e, err := New(s, r)
	if err != nil {
		return e.Refuse(err)
	}
	defer e.Close()
	c := driver.Command{Args: r.Args, Env: mergeEnv(p.Env, r.Env), Dir: r.Dir}
	if c.Dir == "" {
		c.Dir = p.Dir
	}
	e.Streams(&c)
	started, err := p.Start(ctx, c)
	if err != nil {
		return e.Refuse(err)
	}
	return e.Attend(ctx, started)
}

// mergeEnv puts more over env.
func mergeEnv(env, more []string) []string {
	if len(more) == 0 {
		return env
	}
	index := make(map[string]int, len(env))
	out := append([]string{}, env...)
	for i, e := range out {
		key, _, _ := strings.Cut(e, "=")
		index[key] = i
	}
	for _, e := range more {
		key, _, _ := strings.Cut(e, "=")
		if i, ok := index[key]; ok {
			out[i] = e
		} else {
			out = append(out, e)
		}
	}
	return out
}

// Refuse reports to the caller why the command could not be started, or waited for.
func (e *Execution) Refuse(err error) error {
	x := nodecall.ExitFrame{Exit: core.Exit{Code: 126}, Failed: rpc.Fail(err)}
	if s, ok := errors.AsType[*pid1.StartError](err); ok {
		x.Exit.Code = s.Code
	}
	return e.end(x)
}

// Attend passes input, output and signals on until the started command ends,
// and reports how it did. When the caller goes away, so does the command.
func (e *Execution) Attend(ctx context.Context, p driver.Process) error {
	if err := e.stdio.started(p); err != nil {
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
		return e.Refuse(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		e.takeFrames(ctx, p)
	}()
	var out Output
	out.Pass(e.stdio.stdout, func(data []byte) error { return e.write(nodecall.FrameStdout, data) })
	if e.stdio.stderr != nil {
		out.Pass(e.stdio.stderr, func(data []byte) error { return e.write(nodecall.FrameStderr, data) })
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		// The caller has gone, or the container: nothing of the command stays.
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
		return e.Refuse(err)
	}
	out.Drain()
	return e.end(nodecall.ExitFrame{Exit: exit})
}

// lastSignal is the highest number of a signal.
const lastSignal = 64

// takeFrames passes the caller's input and signals on until it is gone. Input
// waits in a queue as long as the program does not read it, so that signals
// and the caller's end are seen all the same; the caller sends no more than
// the queue holds.
func (e *Execution) takeFrames(ctx context.Context, p driver.Process) {
	input := make(chan []byte, nodecall.StdinCredit+1)
	defer close(input)
	go e.feed(input)
	ended := false
	for {
		kind, data, err := nodecall.ReadFrame(e.s)
		if err != nil {
			return
		}
		switch {
		case kind == nodecall.FrameStdin && !ended:
			ended = len(data) == 0
			select {
			case input <- data:
			default: // it sends more than was granted
				return
			}
		case kind == nodecall.FrameSignal && len(data) == 1 && data[0] > 0 && data[0] <= lastSignal:
			p.Signal(ctx, syscall.Signal(data[0]))
		case kind == nodecall.FrameResize && len(data) == 4:
			e.stdio.resize(binary.BigEndian.Uint16(data), binary.BigEndian.Uint16(data[2:]))
		}
	}
}

// feed writes the caller's input, and grants more for each piece.
func (e *Execution) feed(input <-chan []byte) {
	for data := range input {
		if len(data) == 0 {
			break
		}
		core.BestEffort(e.stdio.stdin.Write(data))          // a program need not read its input
		core.BestEffort(e.write(nodecall.FrameCredit, nil)) // a lost caller is noticed elsewhere
	}
	e.stdio.endInput()
}
