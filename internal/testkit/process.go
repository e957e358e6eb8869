package testkit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Kill ends a process, and waits until it holds nothing any more: on a busy
// machine its locks outlive the signal for a while.
func Kill(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) //nolint:errcheck // it may have ended
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000); n > 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// Controllers gives the processes that carry this bee's detached runs.
func (b *Bee) Controllers() []int {
	var pids []int
	for _, p := range b.Processes() {
		var pid int
		if _, err := fmt.Sscan(p, &pid); err == nil && strings.Contains(p, " drive ") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// AwaitControllers waits until there are n of them: a process that hands a run over
// ends soon.
func AwaitControllers(t testing.TB, b *Bee, n int) []int {
	t.Helper()
	var pids []int
	Eventually(t, 20*time.Second, func() error {
		if pids = b.Controllers(); len(pids) != n {
			return fmt.Errorf("%d controllers, want %d:\n%s", len(pids), n, strings.Join(b.Processes(), "\n"))
		}
		return nil
	})
	return pids
}
