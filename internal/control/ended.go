package control

import (
	"fmt"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// endedBadly is the error of a command of the job's that ended with another code
// than 0. Shells and mpirun tell of a signal by 128 and its number, as we do; so
// may a program of its own will, hence "as after".
func endedBadly(what string, code int) error {
	e := &core.Error{Op: "the job's `" + what + "` command", Err: fmt.Errorf("ended with exit code %d", code)}
	s := syscall.Signal(code - 128)
	if name := unix.SignalName(s); name != "" {
		e.Err = fmt.Errorf("%w, as after signal %d (%s, %s)", e.Err, s, name, s)
	}
	if s == syscall.SIGKILL {
		e.Remedy = "Where a host or its batch job runs out of memory, the kernel kills the largest process: `bee show` tells how large the job's were. More `nodes`, fewer `ranks_per_node`, or a site with more memory may help."
	}
	return e
}
