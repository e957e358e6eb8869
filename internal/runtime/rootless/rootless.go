// Package rootless is BEE's own container runtime. It needs nothing but a
// kernel that lets an ordinary user make namespaces: no daemon, no setuid
// program, no subordinate ids, no installed package.
//
// A container has user, mount, UTS and PID namespaces; network and IPC are the
// host's, as MPI wants them. One id is mapped, the caller's: files in mounts
// belong to the user. The image is the read-only lower layer of an overlay.
//
// The package knows containers only: not where images come from, nor nodes.
package rootless

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"golang.org/x/sys/unix"
)

// Options of the runtime.
type Options struct {
	// Binary is the bee binary, which is executed again as the container's
	// first process; empty: this process's own.
	Binary string
	// Upper forces how what a container writes is kept apart from its image;
	// empty: the best that works here. For tests and for unusual hosts.
	Upper Upper
}

// Upper is a way to keep what a container writes apart from its image.
type Upper string

// The ways, best first.
const (
	Overlay     Upper = "overlay"
	FuseOverlay Upper = "fuse-overlayfs"
	Copy        Upper = "copy"
)

// Runtime implements driver.Runtime.
type Runtime struct {
	o       Options
	forks   chan func() // run on one thread that lives as long as the process
	startUp sync.Once
	mu      sync.Mutex // held while it is found out what o.Upper has to be
}

// New makes the runtime. It costs nothing until it is used.
func New(o Options) *Runtime {
	if o.Binary == "" {
		o.Binary = "/proc/self/exe"
	}
	return &Runtime{o: o, forks: make(chan func())}
}

// Info implements driver.Runtime.
func (r *Runtime) Info() driver.Info {
	return driver.Info{Name: "rootless", Summary: "BEE's own: user namespaces, nothing installed", MapsUsers: true, OwnDevices: true, OwnMounts: true}
}

// Needs implements driver.Runtime.
func (r *Runtime) Needs() driver.ImageForm { return driver.Tree }

// Prepare implements driver.Runtime: a tree needs no preparation.
func (r *Runtime) Prepare(_ context.Context, i driver.LocalImage) error {
	if _, err := os.Stat(i.Tree); err != nil {
		return &core.Error{Kind: core.NotFound, Op: "prepare image", Object: i.Ref, Err: err}
	}
	return nil
}

// onForkThread runs f on a thread that never ends while the process lives: the
// death signal of a child comes when its parent's thread dies, not its process.
func (r *Runtime) onForkThread(f func()) {
	r.startUp.Do(func() {
		go func() {
			runtime.LockOSThread()
			for f := range r.forks {
				f()
			}
		}()
	})
	done := make(chan struct{})
	r.forks <- func() { defer close(done); f() }
	<-done
}

// thrifty has the init's own Go runtime use one processor, however many the host
// has, and collect no garbage while the container starts: it does little, and where
// many hosts are emulated on few processors, that little counts for each. Programs
// in the container get their own environment from the node.
var thrifty = []string{"GOMAXPROCS=1", "GOGC=400"} // a table

// spawn starts the child that becomes the container's init, gives it its
// setup and its connection with the node, and waits until it is ready or says what
// went wrong.
func (r *Runtime) spawn(ctx context.Context, s setup, node *os.File) (*exec.Cmd, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	configR, configW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer configW.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		configR.Close()
		return nil, err
	}
	defer readyR.Close()
	c := exec.Command(r.o.Binary, ChildCommand) //nolint:noctx // the container outlives the call
	c.Env = append(slices.Clone(s.Env), thrifty...)
	c.Dir = "/"
	c.ExtraFiles = []*os.File{configR, readyW}
	if node != nil {
		c.ExtraFiles = append(c.ExtraFiles, node)
	}
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: s.User.UID, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: s.User.GID, HostID: os.Getegid(), Size: 1}},
		// Who is not root inside loses the namespace's rights at exec, and with
		// them the right to mount, unless they are ambient. The child drops
		// them all once the container stands.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER},
		Pdeathsig:   syscall.SIGKILL,
		Setsid:      true,
	}
	switch {
	case s.Loader:
		c.SysProcAttr = loaderAttributes()
	case s.Native:
		c.SysProcAttr = nativeAttributes()
	}
	r.onForkThread(func() { err = c.Start() })
	configR.Close()
	readyW.Close()
	if err != nil {
		return nil, diagnose(err)
	}
	s.bound.Add(c.Process.Pid) // it starts nothing before it has its setup
	stop := context.AfterFunc(ctx, func() { c.Process.Kill() })
	defer stop()
	go func() {
		core.BestEffort(configW.Write(raw)) // a child that is gone is seen below
		configW.Close()
	}()
	answer, _ := io.ReadAll(readyR)
	if string(answer) == "ready" {
		return c, nil
	}
	c.Process.Kill()
	procid.Reap(c) // it was killed
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(answer) == 0 {
		answer = []byte("its first process died without a word")
	}
	return nil, errors.New(string(answer))
}

// Start implements driver.Runtime.
func (r *Runtime) Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	s, err := newSetup(spec)
	if err != nil {
		return nil, err
	}
	return r.start(ctx, spec, s)
}

func (r *Runtime) start(ctx context.Context, spec driver.ContainerSpec, s setup) (driver.Container, error) {
	// The usual way is taken at once; only where it fails are the others tried.
	known := r.known()
	s.Upper = cmp.Or(known, Overlay)
	hold, theirs, err := pid1.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	s.bound = cgroup.Limit(core.MemoryLimit(spec.Env))
	child, err := r.spawn(ctx, s, theirs)
	if err != nil && known == "" && ctx.Err() == nil {
		if s.Upper, err = r.upper(ctx); err == nil {
			child, err = r.spawn(ctx, s, theirs)
		}
	}
	if err != nil {
		hold.Close()
		return nil, &core.Error{Kind: core.Unsupported, Op: "start container", Object: spec.Name, Err: errors.Join(err, s.bound.Remove())}
	}
	c := &container{name: spec.Name, owner: spec.Owner, stateDir: spec.StateDir, cmd: child, bound: s.bound, done: make(chan struct{})}
	go c.wait()
	theirs.Close() // so that the end of init is that of the connection
	if c.client, err = pid1.Hold(ctx, hold); err != nil {
		child.Process.Kill()
		<-c.done
		return nil, errors.Join(err, s.bound.Remove())
	}
	return c, nil
}

// container is a running container.
type container struct {
	name     string
	owner    core.Owner
	stateDir string
	cmd      *exec.Cmd
	bound    *cgroup.Bound
	client   *pid1.Client
	done     chan struct{}
	exit     core.Exit
}

func (c *container) wait() {
	defer close(c.done)
	procid.Reap(c.cmd) // its state says how it ended
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	c.exit = core.Exit{Code: status.ExitStatus()}
	if status.Signaled() {
		c.exit = core.Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	if usage, ok := c.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.exit.UserTime, c.exit.SystemTime = time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
		c.exit.MaxRSS = usage.Maxrss * 1024
	}
}

// Exec implements driver.Container.
func (c *container) Exec(ctx context.Context, cmd driver.Command) (driver.Process, error) {
	return c.client.Exec(ctx, cmd)
}

// Wait implements driver.Container.
func (c *container) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-c.done:
		return c.exit, nil
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	}
}

// Stop implements driver.Container.
func (c *container) Stop(ctx context.Context, grace time.Duration) error {
	c.client.Close() // releasing is what makes init end all; gone is success
	c.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	// Killing the first process of a PID namespace kills all of it.
	c.cmd.Process.Kill()
	<-c.done
	return errors.Join(cleanState(c.stateDir), c.bound.Remove())
}

// Memory implements driver.Container.
func (c *container) Memory() driver.MemoryLimit { return c }

// MemoryKills implements driver.MemoryLimit.
func (c *container) MemoryKills() int { return c.bound.Kills() }

// Unbounded implements driver.MemoryLimit.
func (c *container) Unbounded() error { return c.bound.Why() }

func cleanState(dir string) error {
	if err := fsutil.RemoveAll(dir + "/upper"); err != nil {
		return fmt.Errorf("remove what the container wrote: %w", err)
	}
	return nil
}

// VM implements driver.Runtime.
func (r *Runtime) VM() driver.VMRuntime { return nil }

// Use implements driver.Container.
func (c *container) Use(ctx context.Context) (core.Sample, error) { return c.client.Use(ctx) }

// Guest implements driver.Container.
func (c *container) Guest() driver.Guest { return nil }
