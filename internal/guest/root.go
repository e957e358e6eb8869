package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/terminal"
)

// serveRoot does what the host wants of the guest's root: processes in the guest
// itself, for people, its clock and its volume.
func serveRoot(c api.Config, v *volume, e ImageEngine) {
	start := starter(environment(c))
	s := rpc.NewServer(nil)
	rpc.HandleStream(s, api.CallExec, func(ctx context.Context, _ rpc.Caller, r api.ExecRequest, to rpc.Answer[api.ExecReply]) error {
		return execIn(ctx, r, to, start)
	})
	rpc.Handle(s, api.CallClock, func(_ context.Context, _ rpc.Caller, r api.ClockRequest) (rpc.None, error) {
		return rpc.None{}, wake(r)
	})
	rpc.Handle(s, api.CallAdopt, func(ctx context.Context, _ rpc.Caller, r api.AdoptRequest) (rpc.None, error) {
		return rpc.None{}, adopt(ctx, r, v, e)
	})
	v.register(s)
	err := servePort(api.RootPort, s, nil)
	fmt.Fprintln(os.Stderr, "bee guest:", err)
}

// rootHome is where people begin in the guest, as they do by ssh: below "/", there is
// what `docker build .` cannot take.
const rootHome = "/root"

// starter starts processes of the guest, with more in their environment than there is
// in ours.
func starter(env []string) func(context.Context, driver.Command) (driver.Process, error) {
	env = append(os.Environ(), env...)
	return func(_ context.Context, c driver.Command) (driver.Process, error) {
		c.Env, c.Dir = slices.Concat(env, c.Env), cmp.Or(c.Dir, rootHome)
		return startProcess(c)
	}
}

func startProcess(c driver.Command) (driver.Process, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir = c.Env, c.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: c.Terminal != nil}
	p := &process{cmd: cmd, done: make(chan struct{})}
	if c.Terminal != nil {
		end, program, err := terminal.Open(c.Terminal.Rows, c.Terminal.Cols)
		if err != nil {
			return nil, &pid1.StartError{Code: 126, Message: err.Error()}
		}
		defer program.Close()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
		p.terminal = end
	}
	if err := cmd.Start(); err != nil {
		if p.terminal != nil {
			p.terminal.Close()
		}
		code := 126
		if errors.Is(err, exec.ErrNotFound) {
			code = 127
		}
		return nil, &pid1.StartError{Code: code, Message: err.Error()}
	}
	go func() {
		defer close(p.done)
		procid.Reap(cmd) // its state shows it
	}()
	return p, nil
}

// process is a process of the guest.
type process struct {
	cmd      *exec.Cmd
	done     chan struct{}
	terminal *terminal.End // nil: it has none
}

// Terminal implements driver.Process.
func (p *process) Terminal() driver.Terminal {
	if p.terminal == nil {
		return nil
	}
	return p.terminal
}

// Signal implements driver.Process.
func (p *process) Signal(_ context.Context, s os.Signal) error {
	if n, ok := s.(syscall.Signal); ok {
		if err := syscall.Kill(-p.cmd.Process.Pid, n); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal a process of the guest: %w", err)
		}
	}
	return nil
}

// Wait implements driver.Process.
func (p *process) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	case <-p.done:
	}
	state := p.cmd.ProcessState
	exit := core.Exit{Code: state.ExitCode(), UserTime: state.UserTime(), SystemTime: state.SystemTime().Round(time.Microsecond)}
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		exit.Signal = int(w.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit, nil
}
