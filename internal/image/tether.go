package image

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// tether is the shell's part of tethered: TERM goes to the whole group, and the
// program's own end is waited for, as it tidies up. HUP is what mmdebstrap ends
// its group by.
const tether = `trap : HUP; trap 'trap : TERM; kill -TERM 0' TERM; "$@" & child=$!; while kill -0 $child 2>/dev/null; do wait $child; code=$?; done; exit $code`

// tidyTime is how long a program may take to tidy up.
const tidyTime = 20 * time.Second

// ownMounts reports whether root may give a program a mount namespace of its own, which
// is not so in every container.
var ownMounts = sync.OnceValue(func() bool {
	c := exec.Command("/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return c.Run() == nil
})

// tethered gives a program that ends when we do, whatever ends us: it gets SIGTERM
// then. It has a group of its own, and an ordinary user's gets the signal as a
// whole, so that it does not finish first what it is about. As root mmdebstrap tidies
// up only where what it has started is left alone: so it ends after its step. What it
// mounts goes with its last process, even where that is killed.
func tethered(ctx context.Context, argv []string) *exec.Cmd {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	switch {
	case os.Geteuid() != 0:
		argv = append([]string{"/bin/sh", "-c", tether, "sh"}, argv...)
	case ownMounts():
		attr.Unshareflags = syscall.CLONE_NEWNS
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.SysProcAttr = attr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = tidyTime
	return c
}

// runTethered starts a tethered program, has do work with it, and waits for its
// end. Where do fails, the program is ended.
func runTethered(c *exec.Cmd, do func() error) (doErr, err error) {
	// The signal is tied to the thread that starts the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return nil, err
	}
	if doErr = do(); doErr != nil {
		c.Process.Signal(syscall.SIGTERM)
	}
	return doErr, c.Wait()
}
