package sshlink

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// Link is one ssh connection to a host, with the agent of bee at its other end. All calls
// and streams to that host go over it.
type Link struct {
	*rpc.Peer
	wide *wire.ConnPool
	host string
	cmd  *exec.Cmd
	errs *lastWords
	once sync.Once

	// leave, if not nil, is what its end is to one of several users: see Logins.
	leave func()

	// adding is full while more sessions log in.
	adding chan struct{}

	mu          sync.Mutex
	pooledConns []*Link // more sessions that carry it
	closed      bool
}

// Connect returns a link of the caller's own to a host, over a connection that is there
// where others may have it too.
func (p *Client) Connect(ctx context.Context, host string) (*Link, error) {
	g, key := p.shareable(host)
	if g == nil {
		return p.open(ctx, host)
	}
	l, err := g.join(ctx, key, func(ctx context.Context) (*Link, error) {
		if g.answered(key) { // others wait for this login too: what it has against them counts
			p.answered.Store(host, true)
		}
		return p.open(ctx, host)
	})
	if err == nil {
		p.answered.Store(host, true)
	}
	return l, err
}

// open opens a connection. It never asks the user anything. A copy of the binary that
// does not start may have come to harm since it was brought, so it is looked at.
func (p *Client) open(ctx context.Context, host string) (*Link, error) {
	l, err := p.login(ctx, host, false)
	if errors.Is(err, errNoStart) {
		l, err = p.login(ctx, host, true)
	}
	if err == nil {
		p.answered.Store(host, true)
		go p.tend(l)
	}
	return l, err
}

// errNoStart is of a binary that is there and does not become our agent.
var errNoStart = errors.New("bee does not start there")

func (p *Client) login(ctx context.Context, host string, doubt bool) (*Link, error) {
	binaries, err := p.binaries()
	if err != nil {
		return nil, err
	}
	c, words := p.command(ctx, host, bootScript(binaries, doubt))
	l := &Link{host: host, cmd: c, errs: words, adding: make(chan struct{}, 1)}
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.start(c); err != nil {
		return nil, err
	}
	widen(stdin)
	widen(stdout)
	pipes := &pipes{bufio.NewReaderSize(stdout, 64<<10), stdin, stdout}
	stop := context.AfterFunc(ctx, func() { c.Process.Kill() })
	err = p.greet(pipes, host)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		pipes.Close()
		c.Process.Kill()
		procid.Reap(c) // its last words report why
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, p.explain(host, l.errs.String(), err)
	}
	l.wide = wire.NewConnPool(pipes, true)
	if l.Peer, err = rpc.Dial(l.wide, host, wire.Prompt, protocol); err != nil {
		c.Process.Kill()
		return nil, err
	}
	return l, nil
}

// command returns a process of the OpenSSH client that runs a command on a host, and keeps the end of what
// it writes to its standard error. It never asks the user anything. It outlives ctx.
func (p *Client) command(ctx context.Context, host, remote string) (c *exec.Cmd, words *lastWords) {
	argv := sshCommand(host, p.configs.options(ctx, p.s.Program, host, p.s.Options), remote)
	c, words = exec.Command(p.s.Program, argv[1:]...), &lastWords{} //nolint:noctx // a link outlives the call
	// Ctrl-C is ours to handle. And what ssh starts for a jump knows nothing of
	// BatchMode: without a terminal and a window it cannot ask, and wait, either.
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Env = append(os.Environ(), "SSH_ASKPASS_REQUIRE=never")
	c.Stderr = words
	c.WaitDelay = lingers // a ProxyCommand on a dead line has its standard error open when ssh has given up
	return c, words
}

// start starts the OpenSSH client.
func (p *Client) start(c *exec.Cmd) error {
	if err := c.Start(); err != nil {
		return &core.Error{Kind: core.Unsupported, Op: "start", Object: p.s.Program, Err: err, Remedy: "Install the OpenSSH client."}
	}
	return nil
}

// greet waits for the script's word, sends the binary where it is wanted, and waits
// for the agent's. Whatever a login prints before that is skipped, unless it is all
// that comes. Nothing is sent behind the binary before it is there: some hosts' head
// reads more than it passes on.
func (p *Client) greet(c *pipes, host string) error {
	printed, there := "", false
	for {
		line, err := c.r.ReadString('\n')
		text := strings.TrimSpace(line)
		word, ok := strings.CutPrefix(text, "BEE ")
		if !ok && text != "" {
			printed = text
		}
		if errors.Is(err, io.EOF) && there {
			return errNoStart
		}
		if errors.Is(err, io.EOF) {
			return loginEnded(printed)
		}
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		what, rest, _ := strings.Cut(word, " ")
		arch, packed, _ := strings.Cut(rest, " ")
		switch what {
		case "have":
			there = true
			continue
		case here:
			return nil
		}
		if !slices.Contains(architectures(), arch) {
			return &core.Error{
				Kind: core.Unsupported, Op: "use", Object: host, Err: errors.New("it is " + arch),
				Remedy: "BEE runs on Linux on x86_64 (amd64) and aarch64 (arm64): take this host out of the site.",
			}
		}
		path, err := p.s.BinaryFor(arch)
		if err != nil {
			core.BestEffort(io.WriteString(c, "0\n")) // the error is what counts
			return &core.Error{
				Kind: core.Unsupported, Op: "find a bee binary for", Object: host + " (" + arch + ")", Err: err,
				Remedy: "Put bee-linux-" + arch + " beside the bee binary (`make release` makes it), or name it by BEE_BINARY_" + strings.ToUpper(arch) + ".",
			}
		}
		if err := p.sendBinary(c, host, path, packed == gzipped); err != nil {
			return err
		}
	}
}

// loginEnded returns the error of a login that ran no command, with what it printed instead.
func loginEnded(printed string) error {
	if printed == "" {
		return errors.New("the login ended without running a command, and printed nothing")
	}
	return errors.New("the login ended without running a command, and printed: " + printed)
}

// architectures are those that there are bee binaries for.
func architectures() []string { return []string{"amd64", "arm64"} }

// lingers is how long ssh, and what it has started, may take to end.
const lingers = 2 * time.Second

// Usable reports whether there is a connection. One that broke is closed.
func (l *Link) Usable() bool {
	if l == nil {
		return false
	}
	if l.broken() {
		l.Close()
		return false
	}
	return true
}

func (l *Link) broken() bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// Close ends the connection, or this user's part in it; what it started on the host
// stays.
func (l *Link) Close() error {
	l.once.Do(func() {
		if l.leave != nil {
			l.leave()
			return
		}
		l.Peer.Close()
		// What a login's start-up files do is not for us to cut short.
		select {
		case l.adding <- struct{}{}:
		case <-time.After(lingers):
		}
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.closePooled()
		done := make(chan struct{})
		go func() { procid.Reap(l.cmd); close(done) }() // however it ends
		select {
		case <-done:
		case <-time.After(lingers):
			l.cmd.Process.Kill()
			<-done
		}
	})
	return nil
}

// widen has a pipe hold more than the kernel's first choice of 64 KiB: else both ends
// of a busy one do little but wake each other.
func widen(pipe any) {
	f, ok := pipe.(*os.File)
	if !ok {
		return
	}
	if raw, err := f.SyscallConn(); err == nil {
		core.BestEffort(raw.Control(func(fd uintptr) { core.BestEffort(unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20)) })) // then it stays as it is
	}
}

// pipes are ssh's standard streams as one connection.
type pipes struct {
	r   *bufio.Reader
	w   io.WriteCloser
	out io.Closer
}

func (p *pipes) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *pipes) Close() error                { return errors.Join(p.w.Close(), p.out.Close()) }

// lastWords keeps the end of what ssh wrote to its standard error.
type lastWords struct {
	mu  sync.Mutex
	buf []byte
}

func (l *lastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	if len(l.buf) > 4096 {
		l.buf = l.buf[len(l.buf)-4096:]
	}
	return len(b), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(strings.ReplaceAll(string(l.buf), "\r", "")) // which ssh writes for terminals
}

// Transient makes the error of a connection that broke one that passes. Other errors are the
// host's own answers.
func Transient(err error) error {
	if core.IsKind(err, core.Lost) {
		return &core.Error{Kind: core.Transient, Err: err}
	}
	return err
}
