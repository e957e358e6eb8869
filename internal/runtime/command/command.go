// Package command is what the runtimes that are other programs' command lines
// (podman, docker, ch-run, apptainer) have in common: the program runs in the
// foreground as a child that dies with us (or a daemon reports to us of the container as
// long as we live), its container's first process is our own init, and everything
// else goes through that.
//
// It knows no program's options, images or output: those are the adapters'.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Launcher starts programs on one thread that lives as long as the process:
// the death signal of a child comes when its parent's thread dies. The zero
// Launcher is ready.
type Launcher struct {
	once  sync.Once
	forks chan func()
}

func (l *Launcher) start(c *exec.Cmd) error {
	l.once.Do(func() {
		l.forks = make(chan func())
		go func() {
			runtime.LockOSThread()
			for f := range l.forks {
				f()
			}
		}()
	})
	done := make(chan error)
	l.forks <- func() { done <- c.Start() }
	return <-done
}

// Launch is a container to start.
type Launch struct {
	// Argv runs the container in the foreground; of no use to Hold.
	Argv []string
	// Env is the program's environment; nil is this process's own.
	Env []string
	// Name is of the container, Owner whose it is.
	Name  string
	Owner core.Owner
	// Driver is the runtime's name, for the handle.
	Driver string
	// RunDir is where init finds who waits for it.
	RunDir string
	// Mounts are the container's. Of those with a Dir init finds out, before Run or Hold
	// returns, whether it has them as it shall.
	Mounts []driver.Mount
	// Teardown is the time that the program gets for its own clean-up after the
	// container's last process has ended; no less than 2 s.
	Teardown time.Duration
	// Bound limits the memory of the program and all that it starts, in place of options of
	// its own; nil: nothing does.
	Bound *cgroup.Bound
	// Remove ends the container by force, by its name; nil: the program is the ancestor of all
	// its processes, and killing it is enough.
	Remove func(ctx context.Context) error
	// Clean undoes what was prepared for the container; nil: nothing.
	Clean func() error
}

func (s Launch) remove(ctx context.Context) error {
	if s.Remove == nil {
		return nil
	}
	return s.Remove(ctx)
}

func (s Launch) clean() error {
	err := s.Bound.Remove()
	if s.Clean == nil {
		return err
	}
	return errors.Join(err, s.Clean())
}

// teardown is the least of Launch.Teardown.
const teardown = 2 * time.Second

// Run starts the container and takes hold of its init.
func (l *Launcher) Run(ctx context.Context, s Launch) (driver.Container, error) {
	return Hold(ctx, s, func() (Program, error) { return l.run(s) })
}

// run starts the program.
func (l *Launcher) run(s Launch) (Program, error) {
	p := &child{cmd: exec.Command(s.Argv[0], s.Argv[1:]...)} //nolint:noctx // the container outlives the call
	open := func() error { return nil }
	if s.Bound.Holds() {
		var err error
		if open, err = gate(p.cmd); err != nil {
			return nil, StartError(s, err)
		}
	}
	p.cmd.Env, p.cmd.Dir = s.Env, "/"
	p.cmd.Stdout, p.cmd.Stderr = &p.Tail, &p.Tail
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := l.start(p.cmd); err != nil {
		return nil, errors.Join(StartError(s, err), open())
	}
	s.Bound.Add(p.cmd.Process.Pid)
	if err := open(); err != nil {
		p.Kill()
		p.Wait()
		return nil, StartError(s, err)
	}
	return p, nil
}

// gate has a program start only once open was called, in the same process: then what it
// starts is in that one's control group from the first on.
func gate(c *exec.Cmd) (open func() error, err error) {
	if c.Err != nil { // there is no such program
		return nil, c.Err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	argv := append([]string{c.Path}, c.Args[1:]...)
	c.Path, c.Args = "/bin/sh", append([]string{"/bin/sh", "-c", `read -r go <&3 && exec 3<&- "$@"`, "bee-start"}, argv...)
	c.ExtraFiles = []*os.File{r}
	return func() error {
		_, err := io.WriteString(w, "go\n")
		return errors.Join(err, w.Close(), r.Close())
	}, nil
}

// StartError is what a container's start fails with.
func StartError(s Launch, err error) error {
	return Failed("start "+s.Driver+" container", s.Name, err)
}

// Failed is the error of an operation by another program, with what to do where that
// is not there.
func Failed(op, object string, err error) error {
	e := &core.Error{Kind: core.Permanent, Op: op, Object: object, Err: err}
	if missing, is := errors.AsType[*exec.Error](err); is {
		e.Kind, e.Remedy = core.Unsupported, "Install "+missing.Name+" on that host, or choose another `runtime:`."
	}
	return e
}

// Output runs a program to its end and gives what it wrote to its standard
// output. What it wrote to its standard error is in the error.
func Output(ctx context.Context, stdin []byte, argv ...string) (string, error) {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	var printed Tail
	c.Stdout, c.Stderr = &out, &printed
	c.WaitDelay = time.Second // for what a killed program has left running
	if stdin != nil {
		c.Stdin = bytes.NewReader(stdin)
	}
	if err := c.Run(); err != nil {
		if text := strings.TrimSpace(printed.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return out.String(), Failed("run", strings.Join(argv[:min(2, len(argv))], " "), err)
	}
	return out.String(), nil
}

// removal is the time that a program gets to remove a container by force. A
// daemon that has missed a container's end waits for it forever, and so does
// its client (moby issues 10684, 38781).
const removal = 30 * time.Second

// Remove runs the program that removes a container by force, as RemoveBy does.
func Remove(ctx context.Context, argv ...string) error {
	return RemoveBy(ctx, strings.Join(argv, " "), func(ctx context.Context) error {
		_, err := Output(ctx, nil, argv...)
		return err
	})
}

// RemoveBy removes a container by force, as a command line does that ends with its
// name. What does not come to an end is given up: that is Transient, and the
// container may be left.
func RemoveBy(ctx context.Context, line string, remove func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	err := remove(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		argv := strings.Fields(line)
		return &core.Error{
			Kind: core.Transient, Op: "remove container", Object: argv[len(argv)-1], Err: fmt.Errorf("`%s` did not end within %v", line, removal),
			Remedy: "Its processes were asked to end. Restart " + argv[0] + "'s daemon, then run `" + line + "`.",
		}
	}
	return err
}

// Self is the path of this process's own program, for options that leave the
// bee binary out.
func Self(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	return os.Executable()
}
