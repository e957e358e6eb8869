package command

import (
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/procid"
)

// Program runs a container in the foreground.
type Program interface {
	// Wait returns when it has ended, and how it did.
	Wait() core.Exit
	// Kill ends it, but not the container.
	Kill()
	// String is what it printed last.
	String() string
}

// child is a program that is a child of this process.
type child struct {
	Tail

	cmd *exec.Cmd
}

// Wait implements Program.
func (c *child) Wait() core.Exit {
	procid.Reap(c.cmd) // its state says how it ended
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return core.Exit{}
	}
	exit := core.Exit{Code: status.ExitStatus()}
	if status.Signaled() {
		exit = core.Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	// Where the container's processes are the program's own children these are theirs too;
	// with podman and docker they are the program's alone, until init reports.
	if usage, ok := c.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		exit.UserTime, exit.SystemTime = time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
		exit.MaxRSS = usage.Maxrss * 1024
	}
	return exit
}

// Kill implements Program.
func (c *child) Kill() { c.cmd.Process.Kill() }

// Tail keeps the last of what a program printed.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4 << 10

// Write implements io.Writer.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > tailSize {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-tailSize:]...)
	}
	return len(b), nil
}

// String gives what was kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
