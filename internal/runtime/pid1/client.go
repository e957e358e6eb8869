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
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/terminal"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// Client is a node's hold on one container's init.
type Client struct {
	mu   sync.Mutex // messages of hold must not mix
	hold *net.UnixConn
	done chan struct{} // closed when init has gone
	used core.Exit     // of all that has run in the container, once done is closed
}

// InitListener is where a node waits for the init of a container that it is about to start.
type InitListener struct {
	l       net.Listener
	path    string
	arrived chan *net.UnixConn
}

// Open makes the socket in a container's run directory (as the host sees it). The
// container is started then.
func Open(runDir string) (*InitListener, error) {
	path := filepath.Join(runDir, SocketName)
	l, err := wire.ListenUnix(path)
	if err != nil {
		return nil, err
	}
	d := &InitListener{l: l, path: path, arrived: make(chan *net.UnixConn)}
	go func() {
		var g wire.Gate
		g.Serve(l, func(c net.Conn, known func() bool) {
			if u, is := c.(*net.UnixConn); is && known() {
				d.arrived <- u
			}
		})
		close(d.arrived)
	}()
	return d, nil
}

// Close ends the wait, and removes the socket.
func (d *InitListener) Close() {
	d.l.Close()
	fsutil.TryRemove(d.path) // who finds it finds no controller there
	go func() {
		for c := range d.arrived { // only the first is init
			c.Close()
		}
	}()
}

// Await waits until init has come, or the context ends; ended, if not nil, is closed
// when the container ends, so that nobody waits for it. The listener is closed then.
func (d *InitListener) Await(ctx context.Context, ended <-chan struct{}) (*Client, error) {
	defer d.Close()
	select {
	case c := <-d.arrived:
		return Hold(ctx, c)
	case <-ended:
		return nil, &core.Error{Kind: core.Permanent, Op: "start container", Err: errors.New("it ended before its init came up"), Remedy: "The architecture of the image may not be that of the host: set `platform:`."}
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the container's init: %w", context.Cause(ctx))
	}
}

// Hold takes hold of the init at the other end of a connection.
func Hold(ctx context.Context, c *net.UnixConn) (*Client, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	var r report
	in := &reader{c: c}
	err := in.receive(&r)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
		return nil, &core.Error{Kind: core.Lost, Op: "start container", Err: fmt.Errorf("its init does not answer: %w", err)}
	}
	client := &Client{hold: c, done: make(chan struct{})}
	go func() {
		defer close(client.done)
		defer c.Close()
		for in.receive(&r) == nil {
			if r.Exit != nil {
				client.used = *r.Exit
			}
		}
	}()
	return client, nil
}

// Pair are the two ends of a connection with an init: for Hold, and for the process that
// becomes that init.
func Pair() (own *net.UnixConn, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(pair[1]), "socket")
	if own, err = connOf(pair[0]); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return own, theirs, nil
}

// request makes a connection, and sends its first message.
func (c *Client) request(r request, fds ...int) (*reader, error) {
	own, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	err = send(c.hold, request{}, int(theirs.Fd()))
	c.mu.Unlock()
	theirs.Close() // init has it
	if err == nil {
		err = send(own, r, fds...)
	}
	if err != nil {
		own.Close()
		return nil, err
	}
	return &reader{c: own}, nil
}

// connect makes a connection for one process, which has started then.
func (c *Client) connect(r request, fds ...int) (*reader, error) {
	in, err := c.request(r, fds...)
	if err != nil {
		return nil, &core.Error{Kind: core.Lost, Op: "start process in container", Err: err}
	}
	var answer report
	if err := in.receive(&answer); err != nil {
		in.c.Close()
		in.closeFiles()
		return nil, &core.Error{Kind: core.Lost, Op: "start process in container", Err: err}
	}
	if answer.Error != "" {
		in.c.Close()
		in.closeFiles()
		return nil, &StartError{answer.Code, answer.Error}
	}
	return in, nil // it may hold what came right after the answer
}

// StartError means that a command could not be started in the container.
type StartError struct {
	// Code is 127 when there is no such program, else 126, as shells have it.
	Code    int
	Message string
}

func (e *StartError) Error() string { return "start " + e.Message }

// Exec starts a process in the container. A program that cannot be started
// gives a *StartError.
func (c *Client) Exec(_ context.Context, cmd driver.Command) (driver.Process, error) {
	r := request{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Terminal: cmd.Terminal}
	var fds []int
	for i, f := range []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if f != nil {
			r.Files[i] = true
			fds = append(fds, int(f.Fd()))
		}
	}
	in, err := c.connect(r, fds...)
	if err != nil {
		return nil, err
	}
	p := &process{c: in.c, done: make(chan struct{})}
	if cmd.Terminal != nil {
		if p.terminal, err = in.terminal(); err != nil {
			in.c.Close() // which ends the process
			return nil, &core.Error{Kind: core.Lost, Op: "start process in container", Err: err}
		}
	}
	in.closeFiles()
	go p.wait(in)
	return p, nil
}

// terminal takes the end of a terminal that has come along.
func (r *reader) terminal() (*terminal.End, error) {
	if len(r.fds) == 0 {
		return nil, errors.New("no terminal has come with the answer")
	}
	fd := r.fds[0]
	r.fds = r.fds[1:]
	end, err := terminal.Received(fd)
	if err != nil {
		r.closeFiles()
	}
	return end, err
}

// Done is closed when init, and with it the container, has gone.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the container: init ends all processes, reports what they have used, and goes.
func (c *Client) Close() error { return c.hold.CloseWrite() }

// gone is how long init may take to go once the container's program has ended.
const gone = time.Second

// Used adds to the exit of a container's program what all processes inside have used, as
// far as init came to report it.
func (c *Client) Used(e core.Exit) core.Exit {
	select {
	case <-c.done:
	case <-time.After(gone):
		return e
	}
	if u := c.used; u.MaxRSS > 0 {
		e.UserTime, e.SystemTime, e.MaxRSS = u.UserTime, u.SystemTime, u.MaxRSS
	}
	return e
}

// process is a process in the container.
type process struct {
	c    *net.UnixConn
	mu   sync.Mutex
	done chan struct{}
	exit core.Exit
	err  error
	// terminal is the end of its terminal; nil: it has none.
	terminal *terminal.End
}

// Terminal implements driver.Process.
func (p *process) Terminal() driver.Terminal {
	if p.terminal == nil {
		return nil
	}
	return p.terminal
}

func (p *process) wait(in *reader) {
	defer close(p.done)
	defer p.c.Close()
	var r report
	if err := in.receive(&r); err != nil || r.Exit == nil {
		p.err = &core.Error{Kind: core.Lost, Op: "wait for process in container", Err: errors.New("the container has gone"), Remedy: core.RemedyShow}
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

// Wait implements driver.Process. A process that has ended has its exit, even if ctx is done.
func (p *process) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		select {
		case <-p.done:
		default:
			return core.Exit{}, context.Cause(ctx)
		}
	}
	return p.exit, p.err
}
