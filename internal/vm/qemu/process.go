package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
)

// Process is a running virtual machine.
type Process struct {
	cmd     *exec.Cmd
	console string
	done    chan struct{}
	mu      sync.Mutex
	said    strings.Builder
}

// Start starts the machine. It ends when this process does, whatever ends it.
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
	argv, files := m.Command()
	p := &Process{cmd: exec.Command(argv[0], argv[1:]...), console: m.Console, done: make(chan struct{})}
	p.cmd.ExtraFiles = files
	p.cmd.Stdout, p.cmd.Stderr = writer{p}, writer{p}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	started := make(chan error)
	go func() {
		// The death signal comes when the thread that started the child ends:
		// it stays until the child does.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait() //nolint:errcheck // its state tells
			close(p.done)
		}
		runtime.UnlockOSThread()
	}()
	if err := <-started; err != nil {
		kind := core.Permanent
		remedy := ""
		if errors.Is(err, exec.ErrNotFound) {
			kind, remedy = core.Unsupported, "Install QEMU (Debian: qemu-system-x86), or use a guest image that carries one, as those of `bee vm build` do."
		}
		return nil, &core.Error{Kind: kind, Op: "start virtual machine", Err: err, Remedy: remedy}
	}
	return p, nil
}

// writer keeps what QEMU itself says.
type writer struct{ p *Process }

const maxSaid = 8 << 10

func (w writer) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if w.p.said.Len() < maxSaid {
		w.p.said.Write(b)
	}
	return len(b), nil
}

// Done is closed when the machine has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is QEMU's process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// State tells how the process ended; only after Done.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Kill ends the machine at once, and returns when it has ended.
func (p *Process) Kill() {
	p.cmd.Process.Kill() //nolint:errcheck // gone is success
	<-p.done
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

// Note adds to what Said tells.
func (p *Process) Note(text string) { writer{p}.Write([]byte(text + "\n")) } //nolint:errcheck // it cannot fail

// Said is what QEMU and the guest said last, for people.
func (p *Process) Said() string {
	p.mu.Lock()
	text := strings.TrimSpace(p.said.String())
	p.mu.Unlock()
	const last = 2000
	if raw, err := os.ReadFile(p.console); err == nil && len(raw) > 0 {
		text += fmt.Sprintf("\nthe guest's console ends with:\n%s", raw[max(0, len(raw)-last):])
	}
	return text
}
