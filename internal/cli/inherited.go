package cli

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// keepInherited closes the files that a shell had open when it started this process in all
// programs that this process starts. One in the background would keep them open, and the
// locks on them, for as long as a run takes.
func keepInherited() {
	if unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	entries, _ := os.ReadDir("/proc/self/fd") // kernels before 5.11, where there is no other way
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
