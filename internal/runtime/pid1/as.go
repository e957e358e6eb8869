package pid1

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// As, as init's argument, has what IDs gives after it be the uid and gid of all
// processes inside, which stay the caller's outside.
const As = "as"

// IDs is the argument after As.
func IDs(uid, gid int) string { return strconv.Itoa(uid) + ":" + strconv.Itoa(gid) }

// as runs init in a user namespace of its own, for engines that make none: a child, as
// a process with threads cannot change its own.
func as(ids string, args []string) (int, error) {
	first, second, _ := strings.Cut(ids, ":")
	uid, err := strconv.Atoi(first)
	gid, gerr := strconv.Atoi(second)
	if err := errors.Join(err, gerr); err != nil {
		return 1, err
	}
	c := exec.Command("/proc/self/exe", append([]string{Command}, args...)...) //nolint:noctx // it lives as long as the container
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getegid(), Size: 1}},
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	if err := c.Start(); err != nil {
		return 1, fmt.Errorf("start as %s: %w", ids, err)
	}
	go func() {
		for s := range signals {
			c.Process.Signal(s)
		}
	}()
	for { // anyone who came into the container by another way may leave orphans to us
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for init: %w", err)
		case pid == c.Process.Pid:
			return exitOf(status, syscall.Rusage{}).Code, nil
		}
	}
}
