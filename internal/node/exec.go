package node

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/wire"
)

// handleExec runs a command in this node's container, or passes the call on
// to the node that it means.
func (n *node) handleExec(ctx context.Context, s *wire.Stream) error {
	var r client.ExecRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	n.mu.Lock()
	members, b := n.members, n.box
	n.mu.Unlock()
	rank, err := execTarget(r, members, n.config.Rank)
	if err != nil {
		return err
	}
	if rank != n.config.Rank {
		return n.passExec(ctx, s, r, rank)
	}
	if b == nil {
		return &core.Error{Kind: core.NotFound, Op: "start in the container of", Object: n.config.Host.Name, Err: errors.New("it does not run (yet, or any more)")}
	}
	if err := s.Reply(nil); err != nil {
		return err
	}
	return b.exec(ctx, s, r)
}

// passExec joins the caller's stream with one to the right node.
func (n *node) passExec(ctx context.Context, s *wire.Stream, r client.ExecRequest, rank int) error {
	p, err := n.peer(ctx, rank)
	if err != nil {
		return err
	}
	r.Host, r.Rank = "", rank
	far, err := p.Open(ctx, client.CallExec, r, nil)
	if err != nil {
		return err
	}
	defer far.Close()
	if err := s.Reply(nil); err != nil {
		return err
	}
	go func() {
		io.Copy(far, s) //nolint:errcheck // its end is what counts:
		far.Close()     // the caller is gone, so shall be the process
	}()
	_, err = io.Copy(s, far)
	return err
}

// execution is one command with its standard streams over a wire stream.
type execution struct {
	s     io.ReadWriter
	mu    sync.Mutex // frames must not mix
	stdio stdio
}

func (e *execution) write(kind byte, data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return client.WriteFrame(e.s, kind, data)
}

func (e *execution) end(x client.ExitFrame) error {
	raw, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return e.write(client.FrameExit, raw)
}

func (e *execution) cannot(err error) error {
	x := client.ExitFrame{Exit: core.Exit{Code: 126}, Error: err.Error(), Kind: core.KindOf(err).String()}
	if s, ok := errors.AsType[*pid1.StartError](err); ok {
		x.Exit.Code = s.Code
	}
	return e.end(x)
}

// exec runs a command to its end.
func (b *box) exec(ctx context.Context, s io.ReadWriter, r client.ExecRequest) error {
	e := &execution{s: s}
	var err error
	if e.stdio, err = openStdio(r); err != nil {
		return e.cannot(err)
	}
	defer e.stdio.close()
	dir := r.Dir
	if dir == "" {
		dir = b.workdir
	}
	p, err := b.Exec(ctx, driver.Command{Args: r.Args, Env: mergeEnv(b.env, r.Env), Dir: dir, User: b.user,
		Stdin: e.stdio.theirs[0], Stdout: e.stdio.theirs[1], Stderr: e.stdio.theirs[2], TTY: r.TTY})
	if err != nil {
		return e.cannot(err)
	}
	e.stdio.started()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		e.takeFrames(ctx, p)
	}()
	var wg sync.WaitGroup
	wg.Go(func() { e.copyOut(client.FrameStdout, e.stdio.stdout) })
	if e.stdio.stderr != nil {
		wg.Go(func() { e.copyOut(client.FrameStderr, e.stdio.stderr) })
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		// The caller has gone, or the container: nothing of the command stays.
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) //nolint:errcheck // see above
		return e.cannot(err)
	}
	waitShortly(&wg)
	return e.end(client.ExitFrame{Exit: exit})
}

func (e *execution) copyOut(kind byte, from *os.File) {
	buf := make([]byte, 32<<10)
	for {
		k, err := from.Read(buf)
		if k > 0 && e.write(kind, buf[:k]) != nil || err != nil {
			return
		}
	}
}

// waitShortly waits for the rest of the output. A process that was left in the
// background may hold the pipes open for ever: it is not waited for.
func waitShortly(wg *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(500 * time.Millisecond):
	}
}

// takeFrames passes the caller's input and signals on until it is gone. Input
// waits in a queue as long as the program does not read it, so that signals
// and the caller's end are seen all the same; the caller sends no more than
// the queue holds.
func (e *execution) takeFrames(ctx context.Context, p driver.Process) {
	input := make(chan []byte, client.StdinCredit+1)
	defer close(input)
	go e.feed(input)
	ended := false
	for {
		kind, data, err := client.ReadFrame(e.s)
		if err != nil {
			return
		}
		switch {
		case kind == client.FrameStdin && !ended:
			ended = len(data) == 0
			select {
			case input <- data:
			default: // it sends more than was granted
				return
			}
		case kind == client.FrameSignal && len(data) == 1:
			p.Signal(ctx, syscall.Signal(data[0])) //nolint:errcheck // it may have ended just now
		case kind == client.FrameResize && len(data) == 4:
			e.stdio.resize(binary.BigEndian.Uint16(data), binary.BigEndian.Uint16(data[2:]))
		}
	}
}

// feed writes the caller's input, and grants more for each piece.
func (e *execution) feed(input <-chan []byte) {
	for data := range input {
		if len(data) == 0 {
			break
		}
		e.stdio.stdin.Write(data)        //nolint:errcheck // a program need not read its input
		e.write(client.FrameCredit, nil) //nolint:errcheck // a lost caller is noticed elsewhere
	}
	e.stdio.endInput()
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
