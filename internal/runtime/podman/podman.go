// Package podman runs containers by the podman command line: as an ordinary
// user by its rootless mode, or as root. The container is podman's; what goes
// on in it is our init's business.
package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/command"
)

const name = "podman"

// Runtime implements driver.Runtime.
type Runtime struct {
	o        command.Options
	launcher command.Launcher
}

// New makes the runtime. It costs nothing until it is used.
func New(o command.Options) *Runtime {
	o.Program = cmp.Or(o.Program, "podman")
	return &Runtime{o: o}
}

// Info implements driver.Runtime.
func (r *Runtime) Info() driver.Info {
	// As root it has no user namespace: files in the volume would be of the number inside.
	return driver.Info{Name: name, Summary: "podman, as an ordinary user or as root", MapsUsers: os.Geteuid() != 0, OwnDevices: true, OwnLimits: os.Geteuid() == 0}
}

// Needs implements driver.Runtime.
func (r *Runtime) Needs() driver.ImageForm { return driver.Archive }

// Prepare implements driver.Runtime.
func (r *Runtime) Prepare(ctx context.Context, i driver.LocalImage) error {
	return command.Load(ctx, r.o.Program, i)
}

// Probe implements driver.Runtime.
func (r *Runtime) Probe(ctx context.Context) (facts driver.Facts, err error) {
	leavingNoPause(func() {
		facts, err = command.Probe(ctx, r, r.o.Binary, func(ctx context.Context, _ string) (driver.LocalImage, error) {
			return command.Import(ctx, r.o.Program)
		})
	})
	return facts, err
}

// Start implements driver.Runtime.
func (r *Runtime) Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	s, h, err := command.Resolve(name, spec)
	if err != nil {
		return nil, err
	}
	file, rest, err := command.EnvFile(s)
	if err != nil {
		return nil, err
	}
	ids, err := r.identity(ctx, s, h)
	var bound *cgroup.Bound
	if err == nil {
		s.Env, bound, err = r.limits(ctx, s.Env)
	}
	if err != nil {
		return nil, err
	}
	filter, err := command.Filter(s)
	if err != nil {
		return nil, err
	}
	return r.launcher.Run(ctx, command.Launch{
		Argv: runCommand(r.o.Program, s, h, ids, filter, file, rest), Name: s.Name, Owner: s.Owner, Driver: name, RunDir: s.RunDir, Mounts: s.Mounts,
		Bound: bound, Remove: func(ctx context.Context) error { return r.remove(ctx, s.Name) },
	})
}

// limits is an environment without the limit of memory where control groups do not allow one,
// as podman would not start the container.
func (r *Runtime) limits(ctx context.Context, env []string) ([]string, *cgroup.Bound, error) {
	if core.MemoryLimit(env) == 0 {
		return env, nil, nil
	}
	controllers, err := command.Output(ctx, nil, r.o.Program, "info", "--format", "{{range .Host.CgroupControllers}}{{.}} {{end}}")
	if err != nil || slices.Contains(strings.Fields(controllers), "memory") {
		return env, nil, err
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, core.MemoryVariable+"=") })
	return env, cgroup.None(errors.New("podman has no control group with a controller of memory here")), nil
}

// runCommand is the command line of a container.
func runCommand(program string, s driver.ContainerSpec, h command.Host, ids []string, filter, envFile string, env []string) []string {
	argv := []string{
		program, "run", "--rm", "--name", s.Name, "--label", command.Label + "=" + s.Owner.String(),
		"--pull=never", "--network=host", "--pid=private", "--pids-limit=-1", "--log-driver=none", "--no-healthcheck",
		"--cap-drop=all", "--workdir=/", "--env-file", envFile,
	}
	for _, o := range command.SecurityOptions(filter) {
		argv = append(argv, "--security-opt="+o)
	}
	if h.NoMqueue && h.UID != 0 { // podman would bind what is not there
		argv = append(argv, "--ipc=private", "--mount", command.MountOption(driver.Mount{Source: "/dev/shm", Target: "/dev/shm"}))
	} else {
		argv = append(argv, "--ipc=host")
	}
	// Other limits, and this one where it cannot be raised, are inherited.
	if h.MayRaise {
		argv = append(argv, "--ulimit", "memlock=-1:-1")
	}
	argv = append(append(argv, ids...), command.MemoryOptions(s.Env)...)
	if s.Hostname != "" {
		argv = append(argv, "--uts=private", "--hostname", s.Hostname)
	}
	return append(argv, command.InitOptions(s, h, env)...)
}

// identity are the options by which processes are the caller outside, and whom the
// specification says inside.
func (r *Runtime) identity(ctx context.Context, s driver.ContainerSpec, h command.Host) ([]string, error) {
	switch {
	case h.UID == 0 || s.Root: // an ordinary user's root is itself
		return []string{"--user", "0:0"}, nil
	case s.User == nil:
		return []string{"--userns=keep-id", "--user", strconv.Itoa(h.UID) + ":" + strconv.Itoa(h.GID)}, nil
	case s.User.UID != 0 && s.User.GID != 0:
		uid, gid := strconv.Itoa(s.User.UID), strconv.Itoa(s.User.GID)
		return []string{"--userns=keep-id:uid=" + uid + ",gid=" + gid, "--user", uid + ":" + gid}, nil
	}
	// keep-id makes a map without entries where one of the ids is 0, which no kernel takes.
	maps, err := command.Output(ctx, nil, r.o.Program, "unshare", "cat", "/proc/self/uid_map", "/proc/self/gid_map")
	if err != nil {
		return nil, err
	}
	return zeroIDs(s.User.UID, s.User.GID, mapped(maps)), nil
}

// mapped is how many ids a user's podman has, by the maps of its namespace, which are
// those of users and of groups one after the other: half of their sum where both are
// alike, as usual.
func mapped(maps string) int {
	sum := 0
	for line := range strings.Lines(maps) {
		if f := strings.Fields(line); len(f) == 3 {
			n, _ := strconv.Atoi(f[2])
			sum += n
		}
	}
	return sum / 2
}

// zeroIDs maps the caller, who is 0 in podman's own namespace, to ids of which one is 0.
func zeroIDs(uid, gid, count int) []string {
	one := func(flag string, id int) []string {
		if id == 0 {
			return []string{flag, fmt.Sprintf("0:0:%d", count)}
		}
		below := min(id, count-1)
		out := []string{flag, fmt.Sprintf("0:1:%d", below), flag, fmt.Sprintf("%d:0:1", id)}
		if rest := count - 1 - below; rest > 0 {
			out = append(out, flag, fmt.Sprintf("%d:%d:%d", id+1, below+1, rest))
		}
		return out
	}
	return append(append(one("--uidmap", uid), one("--gidmap", gid)...), "--user", fmt.Sprintf("%d:%d", uid, gid))
}

func (r *Runtime) remove(ctx context.Context, container string) error {
	return command.Remove(ctx, removeCommand(r.o.Program, container)...)
}

func removeCommand(program, container string) []string {
	return []string{program, "rm", "--force", "--ignore", "--time=0", container}
}

// VM implements driver.Runtime.
func (r *Runtime) VM() driver.VMRuntime { return nil }
