package rdma

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Problem is what keeps programs from RDMA, and its remedy.
type Problem struct{ Text, Remedy string }

// Unusable returns the problems as an error of kind Unsupported; nil: there are none.
func Unusable(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Text)
	}
	return &core.Error{Kind: core.Unsupported, Err: errors.New(strings.Join(texts, "; ")), Remedy: problems[0].Remedy}
}

// leastLocked is the locked memory, in bytes, with which MPI libraries get through their
// start. Distributions' own limits, 64 KiB and 8 MiB, are below.
const leastLocked = 64 << 20

// raiseLocked is the remedy for a low limit of locked memory.
const raiseLocked = "Have the administrator raise memlock in limits.conf to unlimited; for batch jobs, in the unit of slurmd (LimitMEMLOCK), with PropagateResourceLimitsExcept=MEMLOCK in slurm.conf."

// Check returns what keeps a container's programs from all devices; none: they can use one.
// Of an image without rdma-core, libraries are nil. ownLimits means that the container's
// limits are not those of this process.
func (i Inventory) Check(libraries *Libraries, ownLimits bool) []Problem {
	problems := i.unusable(libraries)
	if i.Locked != Unlimited && i.Locked < leastLocked && len(i.Devices) > 0 && !ownLimits {
		problems = append(problems, Problem{
			fmt.Sprintf("the limit of locked memory is %d KiB, and MPI libraries need at least %d KiB", i.Locked>>10, leastLocked>>10),
			raiseLocked,
		})
	}
	return problems
}

// unusable returns what keeps programs from each device; none: they can use one.
func (i Inventory) unusable(libraries *Libraries) []Problem {
	var problems []Problem
	for _, d := range i.Devices {
		problem := i.problem(d, libraries)
		if problem == nil {
			return nil
		}
		problems = append(problems, *problem)
	}
	for _, n := range i.Nodes {
		if !strings.HasPrefix(n.Path, "/dev/cxi") {
			continue // nodes of devices that are listed, and such as are none
		}
		if n.Err == nil {
			return nil
		}
		problems = append(problems, n.shut())
	}
	if len(problems) > 0 {
		return problems
	}
	isVerbs := func(n Node) bool { return strings.HasPrefix(n.Path, "/dev/infiniband/uverbs") }
	if i.Exclusive && slices.ContainsFunc(i.Nodes, isVerbs) {
		return []Problem{{
			"this host's RDMA devices are seen in another network namespace alone (netns_mode of ib_core is exclusive)",
			"Have the administrator run `rdma system set netns shared`, or move a device here: `rdma dev set NAME netns NAMESPACE`.",
		}}
	}
	return []Problem{{"this host has no RDMA device", "Choose another site, or leave `rdma:` out. On a host with a card, have the administrator load its driver and ib_uverbs."}}
}

// problem is what keeps programs from a device; nil: nothing does.
func (i Inventory) problem(d Device, libraries *Libraries) *Problem {
	if !slices.ContainsFunc(d.Ports, func(p Port) bool { return p.State == active }) {
		var states []string
		for _, p := range d.Ports {
			states = append(states, fmt.Sprintf("port %d is %s", p.Number, p.State))
		}
		text := "no port of device " + d.Name + " is " + active
		if len(states) > 0 {
			text += ": " + strings.Join(states, ", ")
		}
		return &Problem{text, "Have the administrator look at the cable and, for InfiniBand, at the subnet manager; for Ethernet, enable the interface."}
	}
	at := slices.IndexFunc(i.Nodes, func(n Node) bool { return n.Path == d.Node })
	switch {
	case d.Node == "" || at < 0:
		return &Problem{"device " + d.Name + " has no device node below /dev/infiniband", "Have the administrator load the module ib_uverbs. In a container, pass the host's /dev/infiniband in."}
	case i.Nodes[at].Err != nil:
		p := i.Nodes[at].shut()
		return &p
	}
	return libraries.Lack(d)
}

// shut is the problem of a node that does not open.
func (n Node) shut() Problem {
	p := Problem{fmt.Sprintf("%s does not open: %v", n.Path, n.Err), "Have the administrator look at the driver's messages (dmesg)."}
	switch {
	case errors.Is(n.Err, unix.EACCES):
		p.Remedy = fmt.Sprintf("Ask the administrator to add you to the group %s, or to give the node mode 0666, as the rules of rdma-core do.", n.Group)
	case errors.Is(n.Err, unix.EPERM):
		p.Remedy = "The batch system, or a container around bee, keeps the device away: ask for it there."
	}
	return p
}

// group is the name, or the number, of a file's group.
func group(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	st, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return ""
	}
	id := strconv.Itoa(int(st.Gid))
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}
