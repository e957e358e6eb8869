// Package command is what the runtimes that are other programs' command lines
// (podman, docker, ch-run, apptainer) have in common: the program runs in the
// foreground as a child that dies with us, its container's first process is
// our own init, and everything else goes through that.
//
// It knows no program's options, images or output: those are the adapters'.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
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
	// Argv runs the container in the foreground.
	Argv []string
	// Env is the program's environment; nil is this process's own.
	Env []string
	// Name is of the container, Owner whose it is.
	Name  string
	Owner core.Owner
	// Driver is the runtime's name, for the handle.
	Driver string
	// RunDir is where init's socket appears.
	RunDir string
	// Teardown is the time that the program gets for its own clean-up after the
	// container's last process has ended; no less than 2 s.
	Teardown time.Duration
	// Remove ends the container by force, by its name.
	Remove func(ctx context.Context) error
	// Clean undoes what was prepared for the container; nil: nothing.
	Clean func() error
}

// teardown is the least of Launch.Teardown.
const teardown = 2 * time.Second

// Run starts the container and takes hold of its init.
func (l *Launcher) Run(ctx context.Context, s Launch) (driver.Container, error) {
	c := &container{l: s, done: make(chan struct{}), said: &tail{}}
	c.cmd = exec.Command(s.Argv[0], s.Argv[1:]...)
	c.cmd.Env, c.cmd.Dir = s.Env, "/"
	c.cmd.Stdout, c.cmd.Stderr = c.said, c.said
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := l.start(c.cmd); err != nil {
		return nil, errors.Join(startError(s, err), c.clean())
	}
	go c.wait()
	var err error
	if c.client, err = pid1.Dial(ctx, s.RunDir, c.done); err != nil {
		return nil, errors.Join(c.failed(ctx, err), c.clean())
	}
	return c, nil
}

// failed ends what did not come up, and says why by the program's own words.
func (c *container) failed(ctx context.Context, err error) error {
	select {
	case <-c.done:
	default:
		if rerr := c.l.Remove(context.WithoutCancel(ctx)); rerr != nil {
			err = errors.Join(err, rerr)
		}
		c.cmd.Process.Kill() //nolint:errcheck // gone is success
		<-c.done
	}
	if said := strings.TrimSpace(c.said.String()); said != "" && ctx.Err() == nil {
		err = errors.New(said)
	}
	return startError(c.l, err)
}

func startError(s Launch, err error) error {
	kind := core.Permanent
	if errors.Is(err, exec.ErrNotFound) {
		kind = core.Unsupported
	}
	return &core.Error{Kind: kind, Op: "start " + s.Driver + " container", Object: s.Name, Err: err}
}

// Output runs a program to its end and gives what it wrote to its standard
// output. What it wrote to its standard error is in the error.
func Output(ctx context.Context, stdin []byte, argv ...string) (string, error) {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	said := &tail{}
	c.Stdout, c.Stderr = &out, said
	c.WaitDelay = time.Second // for what a killed program has left running
	if stdin != nil {
		c.Stdin = bytes.NewReader(stdin)
	}
	if err := c.Run(); err != nil {
		kind := core.Permanent
		if errors.Is(err, exec.ErrNotFound) {
			kind = core.Unsupported
		}
		if text := strings.TrimSpace(said.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return out.String(), &core.Error{Kind: kind, Op: "run", Object: strings.Join(argv[:min(2, len(argv))], " "), Err: err}
	}
	return out.String(), nil
}

// removal is the time that a program gets to remove a container by force. A
// daemon that has missed a container's end waits for it forever, and so does
// its client (moby issues 10684, 38781).
const removal = 30 * time.Second

// Remove runs the program that removes a container by force. One that does not
// come to an end is given up: that is Transient, and its container may be left.
func Remove(ctx context.Context, argv ...string) error {
	bounded, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	_, err := Output(bounded, nil, argv...)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		line := strings.Join(argv, " ")
		return &core.Error{Kind: core.Transient, Op: "remove container", Object: argv[len(argv)-1], Err: fmt.Errorf("`%s` did not end within %v", line, removal),
			Remedy: "Its processes have been told to end. Restart " + argv[0] + "'s daemon, then run `" + line + "`."}
	}
	return err
}

// tail keeps the last of what a program said.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > tailSize {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-tailSize:]...)
	}
	return len(b), nil
}

// String gives what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// Self is the path of this process's own program, for options that leave the
// bee binary out.
func Self(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	return os.Executable()
}
