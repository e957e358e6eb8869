// Package mountns runs this program again in user and mount namespaces of its own. There an
// ordinary user mounts file systems of processes (FUSE), without a program of root's.
// Containers that the program starts have them, and nobody else on the host sees them. They end
// with the last process of the namespaces.
//
// Processes that outlive the program are started by Outside: in the mounts as they were at first,
// so that they keep none.
//
// The package knows nothing of nodes, containers or volumes.
package mountns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// device is that of file systems of processes.
const device = "/dev/fuse"

// outside runs functions on a thread that has the mounts as they were at first. It is nil in a process without
// mounts of its own. Namespaces belong to a process, and so does this; Enter sets it, before anything else.
var outside chan func()

// Run runs this program again with other arguments, in namespaces of its own, and with an input.
// It returns once that has ended, with its exit code. The process ends when this one does, and gets
// its signals. An error means that there can be no such namespaces, or no mounts in them; then the
// process has read nothing.
func Run(args []string, input []byte) (code int, err error) {
	runtime.LockOSThread() // the process ends with this thread
	defer runtime.UnlockOSThread()
	from, to, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer from.Close()
	c := exec.Command("/proc/self/exe") //nolint:noctx // it ends with this process
	c.Args, c.Stdout, c.Stderr, c.ExtraFiles = args, os.Stdout, os.Stderr, []*os.File{to}
	c.SysProcAttr = attributes()
	c.SysProcAttr.Pdeathsig, c.SysProcAttr.Setpgid = syscall.SIGKILL, true // a signal to the group of this process comes once
	stdin, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	to.Close()
	if err != nil {
		return 0, refused(err)
	}
	why, err := io.ReadAll(io.LimitReader(from, mostReason))
	if err == nil && string(why) != entered {
		err = errors.New(strings.TrimSpace(core.Printable(string(why), mostReason)))
	}
	if err != nil {
		c.Process.Kill()
		core.BestEffort(c.Wait()) // it was killed
		return 0, refused(err)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	defer signal.Stop(signals)
	ended := make(chan struct{})
	defer close(ended)
	go pass(signals, c.Process, ended)
	_, werr := stdin.Write(input)
	core.BestEffort(werr, stdin.Close()) // a process that has ended is seen below
	err = c.Wait()
	status, is := c.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !is:
		return 1, err
	case status.Signaled():
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// Allowed reports whether this user may make the namespaces. Where a profile of AppArmor keeps mounts from
// them, only Run finds that out.
func Allowed(ctx context.Context) bool {
	if outside != nil {
		return true
	}
	c := exec.CommandContext(ctx, "true")
	c.SysProcAttr = attributes()
	return c.Run() == nil
}

// attributes are those of a process in namespaces of its own.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
	}
}

// pass sends signals to the process, but for those that end no node.
func pass(signals <-chan os.Signal, to *os.Process, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if s == unix.SIGTERM || s == unix.SIGINT {
				to.Signal(s)
			}
		case <-ended:
			return
		}
	}
}

const (
	entered    = "entered"
	mostReason = 4096 // bytes
	reportFD   = 3

	remedy = "Ask your administrator to allow user namespaces (`sysctl user.max_user_namespaces`), and to open /dev/fuse to users."
)

// Enter is called by a process that Run has started, before it reads anything. It returns an error
// where nothing can be mounted; the process then ends.
func Enter() error {
	report := os.NewFile(reportFD, "report")
	unix.CloseOnExec(reportFD)
	err := enter()
	text := entered
	if err != nil {
		text = err.Error()
	}
	_, werr := report.WriteString(text)
	report.Close()
	return errors.Join(err, werr)
}

func enter() error {
	// What the host mounts later is seen here, and nothing of here there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	if err := try(); err != nil {
		return err
	}
	// Programs that this one starts have no rights.
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("clear ambient capabilities: %w", errno)
	}
	work, begun := make(chan func()), make(chan error)
	go lend(work, begun)
	if err := <-begun; err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	outside = work
	return nil
}

// lend runs functions on a thread of its own, which keeps the mounts of now. That is not the first one, whose
// mounts /proc/self shows.
func lend(work <-chan func(), begun chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		other := make(chan error)
		go lend(work, other) // on another thread, as this one is locked
		begun <- <-other
		runtime.UnlockOSThread()
		return
	}
	begun <- unix.Unshare(unix.CLONE_NEWNS)
	for f := range work {
		f()
	}
}

// try mounts a file system over a directory that is always there, and unmounts it.
func try() error {
	const dir = "/proc"
	f, err := Mount(dir, "bee")
	if err != nil {
		return err
	}
	f.Close()
	return unix.Unmount(dir, unix.MNT_DETACH)
}

// Own reports whether this process has mounts of its own.
func Own() bool { return outside != nil }

// Outside runs f on a thread whose processes have none of the mounts of this one. They may end with that
// thread, which is one that ends with this process.
func Outside(f func()) {
	if outside == nil {
		f()
		return
	}
	done := make(chan struct{})
	outside <- func() { defer close(done); f() }
	<-done
}

// Mount mounts a file system of a process at a directory, with options beside the usual ones. The process is
// the one that has the file: nobody else may keep it open.
func Mount(dir, source string, options ...string) (*os.File, error) {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: device, Err: err}
	}
	options = append([]string{fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d", fd, unix.S_IFDIR, os.Geteuid(), os.Getegid())}, options...)
	if err := unix.Mount(source, dir, "fuse.bee", unix.MS_NOSUID|unix.MS_NODEV, strings.Join(options, ",")); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "mount at", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), device), nil
}

func refused(err error) error {
	return &core.Error{Kind: core.Unsupported, Op: "mount in namespaces of its own", Err: err, Remedy: remedy}
}
