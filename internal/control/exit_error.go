package control

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// endedBadly is the error of a command of the job's that ended with another code
// than 0. Shells and mpirun tell of a signal by 128 and its number, as we do; so
// may a program of its own will, hence "as after".
func endedBadly(what string, code int) *core.Error {
	e := &core.Error{Op: "the job's `" + what + "` command", Err: fmt.Errorf("ended with exit code %d", code)}
	s := syscall.Signal(code - 128)
	if name := unix.SignalName(s); name != "" {
		e.Err = fmt.Errorf("%w, as after signal %d (%s, %s)", e.Err, s, name, s)
	}
	if s == syscall.SIGKILL {
		e.Remedy = "The kernel has counted no process killed for want of memory there: was it ended by the site, by a limit, or by hand?"
	}
	return e
}

const remedyMemory = "`bee show` lists how large the job's processes were. More `nodes`, fewer `ranks_per_node`, or a site with more memory may help."

// killedForMemory adds to the error of a command what the kernel's counters say of it, on
// whichever host.
func killedForMemory(err *core.Error, nodes []core.NodeReport) *core.Error {
	var own, hosts []string
	for _, n := range nodes {
		switch {
		case n.MemoryKills > 0:
			own = append(own, fmt.Sprintf("%d on %s", n.MemoryKills, n.Host))
		case n.HostMemoryKills > 0:
			hosts = append(hosts, fmt.Sprintf("%d on %s", n.HostMemoryKills, n.Host))
		}
	}
	switch {
	case len(own) > 0:
		err.Err, err.Remedy = fmt.Errorf("%w; the kernel killed processes of the job for want of memory: %s", err.Err, strings.Join(own, ", ")), remedyMemory
	case len(hosts) > 0:
		err.Err, err.Remedy = fmt.Errorf("%w; meanwhile the kernel killed processes for want of memory, the job's or others': %s", err.Err, strings.Join(hosts, ", ")), remedyMemory
	}
	return err
}
