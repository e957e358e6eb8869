// Package procid names a process so that it can be found and ended later by
// another process, even after the number was given to a stranger: by its
// number, its start time and the boot it belongs to. It knows nothing of what
// the process does.
package procid

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// ID is one process of this machine. The zero ID is no process.
type ID struct {
	PID int
	// Start is the process's start in clock ticks since boot (proc(5)).
	Start uint64
	// Boot is the kernel's boot id.
	Boot string
}

// Of gives the ID of the process that has the number pid now.
func Of(pid int) (ID, error) {
	start, err := started(pid)
	if err != nil {
		return ID{}, err
	}
	boot, err := Boot()
	if err != nil {
		return ID{}, err
	}
	return ID{pid, start, boot}, nil
}

// String is the form that Parse reads.
func (i ID) String() string { return fmt.Sprintf("%d %d %s", i.PID, i.Start, i.Boot) }

// Parse reads what String wrote.
func Parse(s string) (ID, error) {
	f := strings.Fields(s)
	if len(f) != 3 {
		return ID{}, fmt.Errorf("malformed process record %q", s)
	}
	pid, err := strconv.Atoi(f[0])
	if err != nil || pid < 1 {
		return ID{}, fmt.Errorf("malformed process record %q", s)
	}
	start, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return ID{}, fmt.Errorf("malformed process record %q", s)
	}
	return ID{pid, start, f[2]}, nil
}

// Alive reports whether the process still runs. A zombie does not.
func (i ID) Alive() bool {
	fd, err := i.open()
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// Signal sends sig to the process; it reports whether there was one.
func (i ID) Signal(sig unix.Signal) (bool, error) {
	fd, err := i.open()
	if errors.Is(err, errGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	err = unix.PidfdSendSignal(fd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return true, err
}

// Wait returns once the process has ended, or with ctx's error.
func (i ID) Wait(ctx context.Context) error {
	fd, err := i.open()
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	for {
		wait := 50 * time.Millisecond // how often ctx is looked at
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(wait.Milliseconds()))
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Kill ends the process at once and waits for its end. What is gone is success.
func (i ID) Kill(ctx context.Context) error {
	if _, err := i.Signal(unix.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", i.PID, err)
	}
	return i.Wait(ctx)
}

var errGone = errors.New("the process has ended")

// Reap waits for a child which was killed, or whose ProcessState shows how it ended.
func Reap(c *exec.Cmd) { core.BestEffort(c.Wait()) }

// open gives a descriptor of the process: from then on its number can not
// come to mean another one.
func (i ID) open() (int, error) {
	if i.PID <= 0 {
		return -1, errGone
	}
	fd, err := unix.PidfdOpen(i.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return -1, errGone
	}
	if err != nil {
		return -1, err
	}
	start, err := started(i.PID)
	boot, _ := Boot()
	if err != nil || start != i.Start || boot != i.Boot || ended(fd) {
		_ = unix.Close(fd)
		return -1, errGone
	}
	return fd, nil
}

// ended reports whether a process has ended wholly. Its state in /proc is that of
// its first thread alone, which may be a zombie while others still run: the
// process that is 1 in a namespace then has yet to end all the others there.
func ended(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

func started(pid int) (ticks uint64, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold blanks and brackets itself.
	rest := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(rest) < 20 {
		return 0, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	return strconv.ParseUint(rest[19], 10, 64)
}

// Boot names the kernel that runs here, since it started.
func Boot() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
