package ssh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// link is one ssh connection to a host, with our agent at its far end. All
// calls and streams to that host go over it.
type link struct {
	*rpc.Peer
	wide *wire.Lanes
	host string
	cmd  *exec.Cmd
	errs *lastWords
	once sync.Once

	// leave, if not nil, is what its end is to one of several users: see Logins.
	leave func()

	// adding is full while more sessions log in.
	adding chan struct{}

	mu     sync.Mutex
	lanes  []*link // more sessions that carry it
	closed bool
}

// connect gives a link of the caller's own, where that can be over a connection that
// is there.
func (p *provider) connect(ctx context.Context, host string) (*link, error) {
	g, key := p.shareable(host)
	if g == nil {
		return p.open(ctx, host)
	}
	l, err := g.join(ctx, key, func(ctx context.Context) (*link, error) {
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
func (p *provider) open(ctx context.Context, host string) (*link, error) {
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
var errNoStart = errors.New("bee does not start there") //nolint:gochecknoglobals // a constant

func (p *provider) login(ctx context.Context, host string, doubt bool) (*link, error) {
	binaries, err := p.binaries()
	if err != nil {
		return nil, err
	}
	argv := sshCommand(host, p.configs.options(ctx, p.s.Client, host, p.s.Options), bootScript(binaries, doubt))
	c := exec.Command(p.s.Client, argv[1:]...) //nolint:noctx // the link outlives the call
	// Ctrl-C is ours to handle. And what ssh starts for a jump knows nothing of
	// BatchMode: without a terminal and a window it cannot ask, and wait, either.
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Env = append(os.Environ(), "SSH_ASKPASS_REQUIRE=never")
	l := &link{host: host, cmd: c, errs: &lastWords{}, adding: make(chan struct{}, 1)}
	c.Stderr = l.errs
	c.WaitDelay = lingers // a ProxyCommand on a dead line has its standard error open when ssh has given up
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "start", Object: p.s.Client, Err: err, Remedy: "Install the OpenSSH client."}
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
		c.Wait() //nolint:errcheck // its last words tell why
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, p.explain(host, l.errs.String(), err)
	}
	l.wide = wire.NewLanes(pipes, true)
	if l.Peer, err = rpc.Dial(l.wide, host, wire.Watched, protocol); err != nil {
		c.Process.Kill()
		return nil, err
	}
	return l, nil
}

// greet waits for the script's word, sends the binary where it is wanted, and waits
// for the agent's. Whatever a login prints before that is skipped, unless it is all
// that comes. Nothing is sent behind the binary before it is there: some hosts' head
// reads more than it passes on.
func (p *provider) greet(c *pipes, host string) error {
	said, there := "", false
	for {
		line, err := c.r.ReadString('\n')
		text := strings.TrimSpace(line)
		word, ok := strings.CutPrefix(text, "BEE ")
		if !ok && text != "" {
			said = text
		}
		if errors.Is(err, io.EOF) && there {
			return errNoStart
		}
		if errors.Is(err, io.EOF) {
			return loginEnded(said)
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
			io.WriteString(c, "0\n") //nolint:errcheck // the error is what counts
			return &core.Error{
				Kind: core.Unsupported, Op: "find a bee binary for", Object: host + " (" + arch + ")", Err: err,
				Remedy: "Put bee-linux-" + arch + " beside the bee binary (`make dist` makes it), or name it by BEE_BINARY_" + strings.ToUpper(arch) + ".",
			}
		}
		if err := p.sendBinary(c, host, path, packed == gzipped); err != nil {
			return err
		}
	}
}

// loginEnded says that a login ran no command, and what it printed instead.
func loginEnded(said string) error {
	if said == "" {
		return errors.New("the login ended without running a command, and said nothing")
	}
	return errors.New("the login ended without running a command, and said: " + said)
}

// architectures are those that there are bee binaries for.
func architectures() []string { return []string{"amd64", "arm64"} }

// lingers is how long ssh, and what it has started, may take to end.
const lingers = 2 * time.Second

// usable tells whether there is a connection; one that broke is closed.
func (l *link) usable() bool {
	if l == nil {
		return false
	}
	if l.broken() {
		l.Close()
		return false
	}
	return true
}

func (l *link) broken() bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// Close ends the connection, or this user's part in it; what it started on the host
// stays.
func (l *link) Close() error {
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
		l.closeLanes()
		done := make(chan struct{})
		go func() { l.cmd.Wait(); close(done) }() //nolint:errcheck // however it ends
		select {
		case <-done:
		case <-time.After(lingers):
			l.cmd.Process.Kill()
			<-done
		}
	})
	return nil
}

// explain turns what ssh said into an error with a kind and a remedy.
func (p *provider) explain(host, words string, err error) error {
	if _, ours := errors.AsType[*core.Error](err); ours {
		return err
	}
	if words == "" {
		words = err.Error()
	}
	e := &core.Error{Kind: core.Transient, Op: "connect by ssh to", Object: host, Err: errors.New(words)}
	// A laptop leaves its network, and a certificate ends: who was let in before may
	// be so again, and what computes there is not given up meanwhile.
	unknown := core.Permanent
	if _, before := p.answered.Load(host); before {
		unknown = core.Transient
	}
	login := p.byHand(host)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(words, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("REMOTE HOST IDENTIFICATION HAS CHANGED"):
		e.Kind, e.Remedy = core.Permanent, "If whoever runs the host confirms the new key, remove the old one by `"+removal(words, host)+"` and run `"+login+"` once by hand."
		e.Err = errors.New("the host's key is not the known one any more: it was made anew, or somebody else answers in the host's place")
	case has("Host key verification failed", "No matching host key", "host key is known"):
		e.Kind, e.Remedy = core.Permanent, "The host's key is not known: run `"+login+"` once by hand, compare and accept it."
	case has(noexec):
		e.Kind, e.Remedy = core.Permanent, "Have logins on "+host+" set XDG_CACHE_HOME to a directory where programs may be run."
	case has(replaceable):
		e.Kind, e.Remedy = core.Permanent, "Have logins on "+host+" set XDG_CACHE_HOME to a directory that, like those above it, nobody else can write to, or take that right away (`chmod go-w`)."
	case has("Permission denied (", "Too many authentication failures"):
		e.Kind, e.Remedy = unknown, "ssh may not ask for a password here: make `"+login+" true` work without one (ssh-agent, `ssh-copy-id`, ~/.ssh/config)."
	case has("Temporary failure in name resolution"):
		e.Remedy = "Has this machine a network, and a name server that answers?"
	case has("Could not resolve hostname", "Name or service not known"):
		e.Kind, e.Remedy = unknown, "Check the name in the sites file, or in ~/.ssh/config."
	case has("No space left", "cut short"):
		e.Kind, e.Remedy = core.Permanent, "Free space in the home directory on "+host+"."
	case has("Connection refused", "timed out", "No route to host", "unreachable", "closed by", "Broken pipe"):
		e.Remedy = "Is the host up, and its sshd? Try `" + login + " true`."
	case errors.Is(err, errNoStart):
		e.Kind, e.Remedy = core.Permanent, "See what `"+login+" '~/.cache/bee/bin/bee-* version'` says: a limit of memory may be too low."
		if e.Err = err; words != err.Error() {
			e.Err = fmt.Errorf("%w: %s", err, words)
		}
	default:
		e.Remedy = "Try `" + login + " true`."
	}
	return e
}

// byHand is the command by which people log in to a host with the site's options.
func (p *provider) byHand(host string) string {
	words := []string{"ssh"}
	options := p.configs.setBack(host)
	if options == nil {
		options = map[string]string{}
	}
	maps.Copy(options, p.s.Options)
	for _, k := range slices.Sorted(maps.Keys(options)) {
		option := k + "=" + options[k]
		if strings.ContainsAny(option, " \t'\"$\\") {
			option = shell.Quote(option)
		}
		words = append(words, "-o", option)
	}
	return strings.Join(append(words, host), " ")
}

// removal is the command that forgets a host's key: ssh's own words, where they
// tell one.
func removal(words, host string) string {
	for line := range strings.Lines(words) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ssh-keygen ") {
			return line
		}
	}
	return "ssh-keygen -R " + NameOf(host)
}

// widen has a pipe hold more than the kernel's first choice of 64 KiB: else both ends
// of a busy one do little but wake each other.
func widen(pipe any) {
	f, ok := pipe.(*os.File)
	if !ok {
		return
	}
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) }) //nolint:errcheck // then it stays as it is
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
