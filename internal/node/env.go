package node

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/mpi"
	"github.com/bee-hpc/bee/internal/plan"
)

// environment is that of everything in the container. It is made of the
// image's, the Beefile's and ours alone: nothing of the host's, so that
// a batch system's or another MPI's variables cannot mislead the job's MPI. user is
// whom the image wants its processes to be, or nil.
// Later ones win; what the user set in the Beefile wins over all.
func environment(plan *plan.Plan, c plan.Config, job mpi.Job, user *core.Account) []string {
	env := map[string]string{
		"PATH": core.DefaultPath,
		// Docker's users are in no list of the image's: Open MPI would warn on stderr
		// that it does not know their shell.
		"HOME": homeOf(plan), "USER": userName(plan), "SHELL": "/bin/sh",
	}
	if user != nil {
		env["HOME"] = cmp.Or(user.Home, env["HOME"])
		env["USER"] = cmp.Or(user.Name, env["USER"])
	}
	set := func(pairs []string) {
		for _, p := range pairs {
			if key, value, ok := strings.Cut(p, "="); ok {
				env[key] = value
			}
		}
	}
	set(plan.Image.Config.Env)
	set(mpi.Environment(job))
	set(beeVariables(plan, c, job))
	for key, value := range plan.Env {
		env[key] = value
	}
	for key, value := range plan.Secrets {
		env[key] = value
	}
	list := make([]string, 0, len(env))
	for key, value := range env {
		list = append(list, key+"="+value)
	}
	sort.Strings(list)
	return list
}

// hostVariables are those by which programs of the host find each other and their libraries.
func hostVariables() []string {
	var vars []string
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
		if value, set := os.LookupEnv(name); set {
			vars = append(vars, name+"="+value)
		}
	}
	return vars
}

// public is an environment without secrets, for the container itself: docker and
// podman write what they give a container to a disk, or show it to everybody in a
// command line. What runs in it is given the whole by our init, through a socket.
func public(env []string, secrets map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		key, _, _ := strings.Cut(e, "=")
		_, is := secrets[key]
		return is
	})
}

func beeVariables(plan *plan.Plan, c plan.Config, job mpi.Job) []string {
	names, ips := make([]string, len(job.Hosts)), make([]string, len(job.Hosts))
	slots := 0
	for i, h := range job.Hosts {
		names[i], ips[i] = h.Name, h.IP
		if i == c.Rank {
			slots = h.Slots
		}
	}
	vars := []string{
		"BEE_NODE_RANK=" + strconv.Itoa(c.Rank), "BEE_NUM_NODES=" + strconv.Itoa(c.Size),
		"BEE_NODELIST=" + strings.Join(names, ","), "BEE_NODE_IPS=" + strings.Join(ips, ","),
		"BEE_RANKS_PER_NODE=" + strconv.Itoa(slots), "BEE_HOSTFILE=" + mpi.HostFile(job),
		"BEE_RUN_ID=" + c.Owner.Run, "BEE_ATTEMPT=" + strconv.Itoa(c.Owner.Attempt),
	}
	if !plan.Deadline.IsZero() {
		vars = append(vars, fmt.Sprintf("BEE_DEADLINE=%d", plan.Deadline.Unix()))
	}
	return vars
}

// homeOf is the home inside: the caller's has no place in the container.
func homeOf(plan *plan.Plan) string {
	if plan.Root || os.Geteuid() == 0 {
		return "/root"
	}
	return plan.Volume
}

func userName(plan *plan.Plan) string {
	if plan.Root {
		return "root"
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Geteuid())
}
