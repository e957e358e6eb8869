// Package docker runs containers by the docker command line, through whatever
// daemon the caller's environment names (DOCKER_HOST, contexts), or by the API of
// a daemon of our own. The container is docker's; what continues in it is our init's
// business.
package docker

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

const name = "docker"

// Options of the runtime.
type Options struct {
	// Program is docker's; empty: "docker" in PATH.
	Program string
	// Binary is the bee binary that Probe uses; empty: this process's own.
	Binary string
	// Own is the daemon of a machine that is ours alone, a guest, to start
	// containers by; nil: the one that Program finds. Root in a container of Own
	// keeps docker's usual capabilities, as it has no power over anyone, and needs
	// them to write where the user outside may.
	Own *Engine
}

// Runtime implements driver.Runtime.
type Runtime struct {
	o        Options
	launcher command.Launcher
}

// New makes the runtime. It costs nothing until it is used.
func New(o Options) *Runtime {
	o.Program = cmp.Or(o.Program, "docker")
	return &Runtime{o: o}
}

// Info implements driver.Runtime.
func (r *Runtime) Info() driver.Info {
	return driver.Info{Name: name, Summary: "docker, through its daemon", OwnDevices: true, OwnLimits: true}
}

// Needs implements driver.Runtime.
func (r *Runtime) Needs() driver.ImageForm { return driver.Archive }

// Prepare implements driver.Runtime.
func (r *Runtime) Prepare(ctx context.Context, i driver.LocalImage) error {
	return explain(command.Load(ctx, r.o.Program, i))
}

// Probe implements driver.Runtime.
func (r *Runtime) Probe(ctx context.Context) (driver.Facts, error) {
	return command.Probe(ctx, r, r.o.Binary, func(ctx context.Context, _ string) (driver.LocalImage, error) {
		i, err := command.Import(ctx, r.o.Program)
		return i, explain(err)
	})
}

// explain says what to do about a daemon that does not answer, or that may not look into a
// directory of the user's. Docker's command line has only its text for either.
func explain(err error) error {
	if err == nil {
		return nil
	}
	switch text := err.Error(); {
	case strings.Contains(text, "docker daemon"):
		return &core.Error{
			Kind: core.Unsupported, Op: "use docker", Err: err,
			Remedy: "Start the docker daemon, and have the administrator add you to the group docker; or choose another runtime.",
		}
	case strings.Contains(text, "invalid mount config") && strings.Contains(text, "permission denied"):
		return &core.Error{
			Kind: core.Unsupported, Op: "use docker", Err: err,
			Remedy: "The docker daemon runs as root, who may not look into that directory here (as on NFS with root_squash); choose the runtime rootless or charliecloud.",
		}
	}
	return err
}

// teardown is ample: on a busy host, a daemon that is asked to remove what it is
// about to remove anyway may get stuck.
const teardown = 10 * time.Second

// Start implements driver.Runtime.
func (r *Runtime) Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	s, h, err := command.Resolve(name, spec)
	if err != nil {
		return nil, err
	}
	launch := command.Launch{
		Name: s.Name, Owner: s.Owner, Driver: name, RunDir: s.RunDir, Mounts: s.Mounts, Teardown: teardown,
		Remove: func(ctx context.Context) error { return r.remove(ctx, s.Name) },
	}
	start := r.byEngine(s, h, launch)
	if r.o.Own == nil {
		if start, err = r.byProgram(ctx, s, h, launch); err != nil {
			return nil, err
		}
	}
	c, err := start(ctx, -1)
	if err != nil && strings.Contains(err.Error(), "rlimit") { // a daemon that may not lift the limit
		c, err = start(ctx, h.Memlock)
	}
	return c, explain(err)
}

// starter starts a container that may lock so many bytes of memory, -1 for any.
type starter func(ctx context.Context, memlock int64) (driver.Container, error)

// byEngine starts a container by the daemon's API.
func (r *Runtime) byEngine(s driver.ContainerSpec, h command.Host, l command.Launch) starter {
	return func(ctx context.Context, memlock int64) (driver.Container, error) {
		return command.Hold(ctx, l, func() (command.Program, error) {
			p, err := r.o.Own.run(ctx, s.Name, r.creation(s, h, memlock))
			if err != nil {
				return nil, command.StartError(l, err)
			}
			return p, nil
		})
	}
}

// byProgram starts a container by docker's command line.
func (r *Runtime) byProgram(ctx context.Context, s driver.ContainerSpec, h command.Host, l command.Launch) (starter, error) {
	ownIDs, filters, err := r.daemon(ctx)
	if err != nil {
		return nil, err
	}
	if s.Root && h.UID != 0 && !ownIDs {
		// Its files would be root's, and we could not even talk to its init.
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "start docker container as root", Object: s.Name,
			Err: errors.New("docker would give the host's own root, not yours"), Remedy: "Use the runtime rootless or podman for `user: root`.",
		}
	}
	file, rest, err := command.EnvFile(s)
	if err != nil {
		return nil, err
	}
	filter := ""
	if filters {
		if filter, err = command.Filter(s); err != nil {
			return nil, err
		}
	}
	if ownIDs {
		h.UID, h.GID = 0, 0 // a rootless daemon maps our ids to 0
	}
	return func(ctx context.Context, memlock int64) (driver.Container, error) {
		l.Argv = r.runCommand(s, h, memlock, filter, file, rest)
		return r.launcher.Run(ctx, l)
	}, nil
}

// daemon reports whether the daemon is a rootless one, whose root is us, and whether it can
// filter system calls.
func (r *Runtime) daemon(ctx context.Context) (ours, filters bool, err error) {
	text, err := command.Output(ctx, nil, r.o.Program, "info", "--format", "{{.SecurityOptions}}")
	return strings.Contains(text, "name=rootless"), strings.Contains(text, "name=seccomp"), explain(err)
}

// runCommand is the command line of a container. memlock is in bytes.
func (r *Runtime) runCommand(s driver.ContainerSpec, h command.Host, memlock int64, filter, envFile string, env []string) []string {
	limit := strconv.FormatInt(memlock, 10)
	argv := append([]string{
		r.o.Program, "run", "--rm", "--name", s.Name, "--label", command.Label + "=" + s.Owner.String(),
		"--pull=never", "--network=host", "--ipc=host", "--pids-limit=-1", "--log-driver=none", "--no-healthcheck",
		"--workdir=/", "--ulimit", "memlock=" + limit + ":" + limit, "--env-file", envFile, "--user", user(s, h),
	}, command.MemoryOptions(s.Env)...)
	for _, o := range command.SecurityOptions(filter) {
		argv = append(argv, "--security-opt="+o)
	}
	if r.dropsAll(s) {
		argv = append(argv, "--cap-drop=all")
	}
	if s.Hostname != "" {
		argv = append(argv, "--hostname", s.Hostname)
	}
	return append(argv, command.InitOptions(s, h, env)...)
}

// user is whose a container's processes are to the daemon: where they are others
// inside, which only Own's can be, it is their init that makes them so.
func user(s driver.ContainerSpec, h command.Host) string {
	s.User = nil
	return pid1.IDs(s.IDs(h.UID, h.GID))
}

// dropsAll reports whether a container gets no capabilities at all.
func (r *Runtime) dropsAll(s driver.ContainerSpec) bool { return !s.Root || r.o.Own == nil }

func (r *Runtime) remove(ctx context.Context, container string) error {
	if r.o.Own != nil {
		return r.o.Own.Remove(ctx, container)
	}
	return explain(unlessGone(command.Remove(ctx, removeCommand(r.o.Program, container)...)))
}

// unlessGone is the error of a removal, but for a container that is not there, or that
// docker removes by itself just now.
func unlessGone(err error) error {
	if err != nil && (strings.Contains(err.Error(), "No such container") || strings.Contains(err.Error(), "already in progress")) {
		return nil
	}
	return err
}

func removeCommand(program, container string) []string {
	return []string{program, "rm", "--force", container}
}

// VM implements driver.Runtime.
func (r *Runtime) VM() driver.VMRuntime { return nil }
