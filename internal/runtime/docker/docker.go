// Package docker runs containers by the docker command line, through whatever
// daemon the caller's environment names (DOCKER_HOST, contexts). The container
// is docker's; what goes on in it is our init's business.
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
)

const name = "docker"

// Options of the runtime.
type Options struct {
	// Program is docker's; empty: "docker" in PATH.
	Program string
	// Binary is the bee binary that Probe uses; empty: this process's own.
	Binary string
	// OwnMachine tells that the daemon's machine is ours alone, a guest: root
	// in a container then keeps docker's usual capabilities, as it has no
	// power over anyone, and needs them to write where the user outside may.
	OwnMachine bool
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
	return driver.Info{Name: name, Summary: "docker, through its daemon"}
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

// explain says what to do about a daemon that does not answer.
func explain(err error) error {
	if err == nil || !strings.Contains(err.Error(), "docker daemon") {
		return err
	}
	return &core.Error{Kind: core.Unsupported, Op: "use docker", Err: err,
		Remedy: "Start the docker daemon, and have the administrator add you to the group docker; or choose another runtime."}
}

// teardown is ample: on a busy host, a daemon that is told to remove what it is
// about to remove anyway may get stuck.
const teardown = 10 * time.Second

// Start implements driver.Runtime.
func (r *Runtime) Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	s, h, err := command.Resolve(spec)
	if err != nil {
		return nil, &core.Error{Kind: core.KindOf(err), Op: "start docker container", Object: spec.Name, Err: err}
	}
	ownIDs := false
	if !r.o.OwnMachine { // whose daemon is root's, and slow to ask
		if ownIDs, err = r.daemonIsOurs(ctx); err != nil {
			return nil, err
		}
	}
	if s.Root && h.UID != 0 && !ownIDs {
		// Its files would be root's, and we could not even talk to its init.
		return nil, &core.Error{Kind: core.Unsupported, Op: "start docker container as root", Object: s.Name,
			Err: errors.New("docker would give the host's own root, not yours"), Remedy: "Use the runtime rootless or podman for `user: root`."}
	}
	file, rest, err := command.EnvFile(s)
	if err != nil {
		return nil, err
	}
	if ownIDs {
		h.UID, h.GID = 0, 0 // a rootless daemon maps our ids to 0
	}
	launch := command.Launch{Argv: r.runCommand(s, h, -1, file, rest), Name: s.Name, Owner: s.Owner, Driver: name, RunDir: s.RunDir, Teardown: teardown,
		Remove: func(ctx context.Context) error { return r.remove(ctx, s.Name) }}
	c, err := r.launcher.Run(ctx, launch)
	if err != nil && strings.Contains(err.Error(), "rlimit") { // a daemon that may not lift the limit
		launch.Argv = r.runCommand(s, h, h.Memlock, file, rest)
		c, err = r.launcher.Run(ctx, launch)
	}
	return c, explain(err)
}

// daemonIsOurs tells whether the daemon is a rootless one, whose root is us.
func (r *Runtime) daemonIsOurs(ctx context.Context) (bool, error) {
	text, err := command.Output(ctx, nil, r.o.Program, "info", "--format", "{{.SecurityOptions}}")
	return strings.Contains(text, "name=rootless"), explain(err)
}

// runCommand is the command line of a container. memlock is in bytes.
func (r *Runtime) runCommand(s driver.ContainerSpec, h command.Host, memlock int64, envFile string, env []string) []string {
	user := strconv.Itoa(h.UID) + ":" + strconv.Itoa(h.GID)
	if s.Root {
		user = "0:0"
	}
	limit := strconv.FormatInt(memlock, 10)
	argv := []string{r.o.Program, "run", "--rm", "--name", s.Name, "--label", command.Label + "=" + s.Owner.String(),
		"--pull=never", "--network=host", "--ipc=host", "--pids-limit=-1", "--log-driver=none", "--no-healthcheck",
		"--security-opt=no-new-privileges", "--security-opt=label=disable", "--workdir=/",
		"--ulimit", "memlock=" + limit + ":" + limit, "--env-file", envFile, "--user", user}
	if !s.Root || !r.o.OwnMachine {
		argv = append(argv, "--cap-drop=all")
	}
	if s.Hostname != "" {
		argv = append(argv, "--hostname", s.Hostname)
	}
	return append(argv, command.InitOptions(s, h, env)...)
}

// Recover implements driver.Runtime.
func (r *Runtime) Recover(_ context.Context, h core.Handle) (driver.Container, error) {
	return nil, command.NoRecovery(h)
}

// List implements driver.Runtime.
func (r *Runtime) List(ctx context.Context, q core.Owner) ([]core.Handle, error) {
	text, err := command.Output(ctx, nil, listCommand(r.o.Program)...)
	if core.IsKind(err, core.Unsupported) { // not installed: there are none
		return nil, nil
	}
	return command.ParseList(name, text, q), explain(err)
}

func listCommand(program string) []string {
	return []string{program, "ps", "--all", "--filter", "label=" + command.Label, "--format", `{{.Names}}{{"\t"}}{{.Label "` + command.Label + `"}}`}
}

// Remove implements driver.Runtime.
func (r *Runtime) Remove(ctx context.Context, h core.Handle) error {
	n, err := command.NameOf(h)
	if err != nil {
		return err
	}
	return r.remove(ctx, n)
}

func (r *Runtime) remove(ctx context.Context, container string) error {
	err := command.Remove(ctx, removeCommand(r.o.Program, container)...)
	// --rm may be at it already.
	if err != nil && (strings.Contains(err.Error(), "No such container") || strings.Contains(err.Error(), "already in progress")) {
		return nil
	}
	return explain(err)
}

func removeCommand(program, container string) []string {
	return []string{program, "rm", "--force", container}
}
