package headlink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"golang.org/x/sys/unix"
)

// ExitError is the error of a command of the job's that ended with another code than 0, with
// what may be why. guest is the image of the job's virtual machines; "": there are none.
func ExitError(job *spec.Job, guest, what string, r *protocol.Result) error {
	return HintShared(job, r, hint9p(job, guest, killedForMemory(endedBadly(what, r.Exit.Code), r.Nodes)))
}

// endedBadly is the error of a command of the job's that ended with another code
// than 0. Shells and mpirun report a signal by 128 and its number, as we do; so
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

// HintShared adds to the error of a command that hosts without a common file system may
// be why it failed.
func HintShared(job *spec.Job, r *protocol.Result, err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Kind != core.Permanent || r.SharedVolume || r.InSetup || job.Nodes < 2 || slices.Contains([]string{spec.SharedRequired, spec.SharedAny}, job.Volume.Shared) {
		return err
	}
	e.Remedy = strings.TrimSpace(e.Remedy + " The hosts share no file system: each node had files of its own. Where the job needs one directory for all, `volume: {shared: required}` skips such sites; where node 0 needs the others' files at the end, `post:` runs once they are gathered.")
	return e
}

// hint9p adds to the error of a command in guests what 9p, by which they have the volume,
// cannot do.
func hint9p(job *spec.Job, guest string, e *core.Error) *core.Error {
	vm := job.VM
	if guest == "" || vm == nil || vm.Share == protocol.ShareVirtiofs || job.Volume.Kind == spec.VolumeImage {
		return e
	}
	e.Remedy = strings.TrimSpace(e.Remedy + " Its guests have the volume by 9p, which has no FIFOs, sockets, fallocate, exchange by rename, nor open files without a name: where the job needs them, `vm: {share: virtiofs}` or `volume: dataimage` has them (docs/reference/volumes.md).")
	return e
}
