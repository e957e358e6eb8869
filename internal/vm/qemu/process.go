package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/procid"
)

// Process is a running virtual machine, or the server of a share.
type Process struct {
	cmd     *exec.Cmd
	console string
	servers []*ShareServer // of a machine
	done    chan struct{}
	mu      sync.Mutex
	printed strings.Builder
}

// Start starts the machine, and the servers of its shares. It ends when this
// process does, whatever ends it, or when one of those servers does.
func (m Machine) Start() (*Process, error) {
	m.Nets = slices.Clone(m.Nets)
	for i, n := range m.Nets {
		if n.Path == "" {
			continue
		}
		dir, err := os.Open(filepath.Dir(n.Path))
		if err != nil {
			return nil, fmt.Errorf("start virtual machine: %w", err)
		}
		defer dir.Close()
		m.Nets[i].dir = dir
	}
	servers, err := m.serve()
	if err != nil {
		return nil, err
	}
	argv, files := m.Command()
	p, err := run(argv, files, &syscall.SysProcAttr{Setsid: true}, m.Console)
	for _, s := range servers {
		s.Socket.Close() // the machine has it
	}
	if err == nil {
		p.servers = servers
		for _, s := range servers {
			go p.needs(s.Process)
		}
		return p, nil
	}
	for _, s := range servers {
		s.Kill()
	}
	kind := core.Permanent
	remedy := ""
	if errors.Is(err, exec.ErrNotFound) {
		kind, remedy = core.Unsupported, "Install QEMU (Debian: qemu-system-x86), or use a guest image that carries one, as those of `bee vm build` do."
	}
	return nil, &core.Error{Kind: kind, Op: "start virtual machine", Err: err, Remedy: remedy}
}

// serve starts the servers of those shares that have one.
func (m *Machine) serve() (servers []*ShareServer, err error) {
	m.Shares = slices.Clone(m.Shares)
	for i, share := range m.Shares {
		if share.Server == nil {
			continue
		}
		s, err := share.serve()
		if err != nil {
			for _, s := range servers {
				s.Socket.Close()
				s.Kill()
			}
			return nil, err
		}
		m.Shares[i].socket = s.Socket
		servers = append(servers, s)
	}
	return servers, nil
}

// needs ends this process when another one ends, and the other way round: a
// guest would wait for a share's server for ever.
func (p *Process) needs(server *Process) {
	select {
	case <-p.done:
		server.Kill()
	case <-server.done:
		select {
		case <-p.done: // which is why
		case <-time.After(settleTime):
			p.Note("virtiofsd, which serves the hosts' directory, ended (" + server.State().String() + "), and the machine with it: " + server.LastOutput())
			p.Kill()
		}
	}
}

// settleTime is how long a machine that has ended may take to be known as such:
// its servers end as well then.
const settleTime = 500 * time.Millisecond

// run starts a process that ends when this one does.
func run(argv []string, files []*os.File, attr *syscall.SysProcAttr, console string) (*Process, error) {
	p := &Process{cmd: exec.Command(argv[0], argv[1:]...), console: console, done: make(chan struct{})} //nolint:noctx // the machine outlives the call
	p.cmd.ExtraFiles = files
	p.cmd.Stdout, p.cmd.Stderr = writer{p}, writer{p}
	attr.Pdeathsig = syscall.SIGKILL
	p.cmd.SysProcAttr = attr
	started := make(chan error)
	go func() {
		// The death signal comes when the thread that started the child ends:
		// it stays until the child does.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			procid.Reap(p.cmd) // its state shows it
			close(p.done)
		}
		runtime.UnlockOSThread()
	}()
	return p, <-started
}

// writer keeps what QEMU itself says.
type writer struct{ p *Process }

const maxLastOutput = 8 << 10

func (w writer) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if w.p.printed.Len() < maxLastOutput {
		w.p.printed.Write(b)
	}
	return len(b), nil
}

// Done is closed when the machine has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is its number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// CommandLine returns the program and its arguments.
func (p *Process) CommandLine() []string { return slices.Clone(p.cmd.Args) }

// State reports how the process ended; only after Done.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Killed reports of a machine that does not answer any more whether it was killed, by
// any user or by the kernel that had no memory left, or crashed; only before Kill.
func (p *Process) Killed() bool {
	if !p.Over() {
		return false
	}
	status, is := p.State().Sys().(syscall.WaitStatus)
	return is && status.Signaled() && status.Signal() != syscall.SIGABRT // by which QEMU ends itself
}

// Over reports of a machine that does not answer any more whether it has ended.
func (p *Process) Over() bool {
	select {
	case <-p.done:
		return true
	case <-time.After(settleTime):
		return false
	}
}

// Kill ends the machine at once, and returns when it and its servers have ended.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
	for _, s := range p.servers {
		s.Kill()
	}
}

// Wait returns when the machine has ended or the context ends.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Note adds to what LastOutput reports.
func (p *Process) Note(text string) { core.BestEffort(writer{p}.Write([]byte(text + "\n"))) } // it cannot fail

// LastOutput is what QEMU and the guest printed last, for people.
func (p *Process) LastOutput() string {
	p.mu.Lock()
	text := strings.TrimSpace(p.printed.String())
	p.mu.Unlock()
	const last = 2000
	if raw, err := os.ReadFile(p.console); err == nil && len(raw) > 0 {
		text += fmt.Sprintf("\nthe guest's console ends with:\n%s", Plain(raw[max(0, len(raw)-last):]))
	}
	return strings.TrimSpace(text)
}

// Plain is what a console has shown, without what it did to the terminal: firmware
// clears it, and its reader has one of his own.
func Plain(console []byte) string {
	return strings.TrimSpace(escapes().ReplaceAllString(strings.ReplaceAll(string(console), "\r", ""), "")) + "\n"
}

// escapes are compiled by the few processes that need them.
var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])`) })
