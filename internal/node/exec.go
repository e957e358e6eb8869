package node

import (
	"context"
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

// exec runs a command with its standard streams over a wire stream.
func (b *box) exec(ctx context.Context, s io.ReadWriter, r client.ExecRequest) error {
	var mu sync.Mutex
	write := func(kind byte, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return client.WriteFrame(s, kind, data)
	}
	cannot := func(err error) error {
		x := client.ExitFrame{Exit: core.Exit{Code: 126}, Error: err.Error(), Kind: core.KindOf(err).String()}
		if e, ok := errors.AsType[*pid1.StartError](err); ok {
			x.Exit.Code = e.Code
		}
		raw, _ := json.Marshal(x)
		return write(client.FrameExit, raw)
	}
	var files [3]struct{ theirs, ours *os.File }
	for i := range files {
		rd, wr, err := os.Pipe()
		if err != nil {
			return cannot(err)
		}
		files[i].theirs, files[i].ours = rd, wr
		if i > 0 {
			files[i].theirs, files[i].ours = wr, rd
		}
		defer rd.Close()
		defer wr.Close()
	}
	dir := r.Dir
	if dir == "" {
		dir = b.workdir
	}
	p, err := b.Exec(ctx, driver.Command{Args: r.Args, Env: mergeEnv(b.env, r.Env), Dir: dir, User: b.user,
		Stdin: files[0].theirs, Stdout: files[1].theirs, Stderr: files[2].theirs})
	if err != nil {
		return cannot(err)
	}
	for _, f := range files {
		f.theirs.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		takeFrames(ctx, s, files[0].ours, p)
	}()
	var wg sync.WaitGroup
	for i, kind := range []byte{client.FrameStdout, client.FrameStderr} {
		wg.Go(func() {
			buf := make([]byte, 32<<10)
			for {
				k, err := files[i+1].ours.Read(buf)
				if k > 0 && write(kind, buf[:k]) != nil || err != nil {
					return
				}
			}
		})
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		// The caller has gone, or the container: nothing of the command stays.
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) //nolint:errcheck // see above
		return cannot(err)
	}
	waitShortly(&wg)
	raw, err := json.Marshal(client.ExitFrame{Exit: exit})
	if err != nil {
		return err
	}
	return write(client.FrameExit, raw)
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

// takeFrames passes the caller's input and signals on until it is gone.
func takeFrames(ctx context.Context, s io.Reader, stdin *os.File, p driver.Process) {
	defer stdin.Close()
	for {
		kind, data, err := client.ReadFrame(s)
		if err != nil {
			return
		}
		switch {
		case kind == client.FrameStdin && len(data) == 0:
			stdin.Close()
		case kind == client.FrameStdin:
			stdin.Write(data) //nolint:errcheck // a program need not read its input
		case kind == client.FrameSignal && len(data) == 1:
			p.Signal(ctx, syscall.Signal(data[0])) //nolint:errcheck // it may have ended just now
		}
	}
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
