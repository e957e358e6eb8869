package pid1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/wire"
)

// Client is a node's hold on one container's init.
type Client struct {
	path string
	hold *net.UnixConn
	done chan struct{} // closed when init has gone
}

// Dial takes hold of the init whose socket lies in the run directory (as the
// host sees it). It waits until init listens or the context ends; ended, if
// not nil, is closed when the container ends, so that nobody waits for it.
func Dial(ctx context.Context, runDir string, ended <-chan struct{}) (*Client, error) {
	path := filepath.Join(runDir, SocketName)
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		in, err := connect(ctx, path, request{Hold: true})
		if err == nil {
			return newClient(path, in), nil
		}
		select {
		case <-time.After(pause):
		case <-ended:
			return nil, &core.Error{Kind: core.Permanent, Op: "start container", Err: errors.New("it ended before its init came up")}
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the container's init: %w (last: %w)", context.Cause(ctx), err)
		}
	}
}

func newClient(path string, in *reader) *Client {
	client := &Client{path: path, hold: in.c, done: make(chan struct{})}
	go func() {
		defer close(client.done)
		var r report
		for in.receive(&r) == nil {
		}
	}()
	return client
}

// connect sends the first message and waits for its answer.
func connect(ctx context.Context, path string, r request, fds ...int) (*reader, error) {
	raw, err := wire.DialUnix(ctx, path)
	if err != nil {
		return nil, err
	}
	c := raw.(*net.UnixConn)
	if err := send(c, r, fds...); err != nil {
		c.Close()
		return nil, err
	}
	var answer report
	in := &reader{c: c}
	if err := in.receive(&answer); err != nil {
		c.Close()
		return nil, &core.Error{Kind: core.Lost, Op: "start process in container", Err: err}
	}
	if answer.Error != "" {
		c.Close()
		return nil, &StartError{answer.Code, answer.Error}
	}
	return in, nil // it may hold what came right after the answer
}

// StartError tells that a command could not be started in the container.
type StartError struct {
	// Code is 127 when there is no such program, else 126, as shells have it.
	Code    int
	Message string
}

func (e *StartError) Error() string { return "start " + e.Message }

// Exec starts a process in the container. A program that cannot be started
// gives a *StartError.
func (c *Client) Exec(ctx context.Context, cmd driver.Command) (driver.Process, error) {
	r := request{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, TTY: cmd.TTY}
	var fds []int
	for i, f := range []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if f != nil {
			r.Files[i] = true
			fds = append(fds, int(f.Fd()))
		}
	}
	in, err := connect(ctx, c.path, r, fds...)
	if err != nil {
		return nil, err
	}
	p := &process{c: in.c, done: make(chan struct{})}
	go p.wait(in)
	return p, nil
}

// Done is closed when init, and with it the container, has gone.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close lets go of the container, which then ends all its processes.
func (c *Client) Close() error { return c.hold.Close() }

// process is a process in the container.
type process struct {
	c    *net.UnixConn
	mu   sync.Mutex
	done chan struct{}
	exit core.Exit
	err  error
}

func (p *process) wait(in *reader) {
	defer close(p.done)
	defer p.c.Close()
	var r report
	if err := in.receive(&r); err != nil || r.Exit == nil {
		p.err = &core.Error{Kind: core.Lost, Op: "wait for process in container", Err: errors.New("the container has gone")}
		return
	}
	p.exit = *r.Exit
}

// Signal implements driver.Process.
func (p *process) Signal(_ context.Context, s os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return nil
	default:
	}
	n, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v: not a system signal", s)
	}
	return send(p.c, order{int(n)})
}

// Wait implements driver.Process.
func (p *process) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	}
}
