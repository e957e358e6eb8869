// Package lxc runs containers by lxc-start, from files alone: a configuration of our own,
// without lxc's directories, bridge or service. Package overlay makes the root around it.
// Our init is the container's first process, so it is lxc-start: lxc-execute puts an init of
// its own there.
package lxc

import (
	"cmp"
	"context"
	"errors"
	"os/exec"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/overlay"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

const name = "lxc"

// Runtime implements driver.Runtime.
type Runtime struct {
	o        command.Options
	launcher command.Launcher
}

// New makes the runtime. It costs nothing until it is used.
func New(o command.Options) *Runtime {
	o.Program = cmp.Or(o.Program, "lxc-start")
	return &Runtime{o: o}
}

// Info implements driver.Runtime.
func (r *Runtime) Info() driver.Info {
	return driver.Info{Name: name, Summary: "LXC's lxc-start, where it is asked for by name", MapsUsers: true, OwnDevices: true}
}

// Needs implements driver.Runtime.
func (r *Runtime) Needs() driver.ImageForm { return driver.Tree }

// Prepare implements driver.Runtime.
func (r *Runtime) Prepare(_ context.Context, i driver.LocalImage) error {
	return command.PrepareTree(i)
}

// Probe implements driver.Runtime.
func (r *Runtime) Probe(ctx context.Context) (driver.Facts, error) {
	return command.Probe(ctx, r, r.o.Binary, command.EmptyTree)
}

// Start implements driver.Runtime.
func (r *Runtime) Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	failed := func(err error) error { return command.Failed("start lxc container", spec.Name, err) }
	if err := command.NoSeccomp(name, spec); err != nil {
		return nil, err
	}
	s, h, err := command.Resolve(name, spec)
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath(r.o.Program)
	if err != nil {
		return nil, failed(err)
	}
	s, err = withHost(s)
	if err != nil {
		return nil, failed(err)
	}
	root, err := overlay.New(s)
	var f files
	if err == nil {
		f, err = writeFiles(s, h, root)
	}
	if err != nil {
		return nil, errors.Join(failed(err), root.Remove())
	}
	return r.launcher.Run(ctx, command.Launch{
		Argv: root.Command("bee-lxc", startCommand(program, s, h, f)...), Env: f.environment(), Name: s.Name, Owner: s.Owner, Driver: name, RunDir: s.RunDir, Mounts: s.Mounts,
		Bound: cgroup.Limit(core.MemoryLimit(s.Env)),
		Clean: func() error { return errors.Join(root.Remove(), f.remove()) },
	})
}

// wrapper has lxc find no control groups, so that it makes none: the job's limits are those
// of the group in which it starts. Nor does it see a directory of the host for its locks.
const wrapper = `set -e
mkdir -p /run/lxc 2>/dev/null || :
for dir in /sys/fs/cgroup /run/lxc; do
  if [ -d "$dir" ]; then mount -t tmpfs -o mode=755 tmpfs "$dir"; fi
done
exec "$@"`

// startCommand is the command line in the namespaces of the root: lxc-start, and our init.
// lxc fails where it may change groups and the namespace forbids that; without CAP_SETGID
// it does not try.
func startCommand(program string, s driver.ContainerSpec, h command.Host, f files) []string {
	argv := []string{
		"/bin/sh", "-c", wrapper, "bee-lxc",
		"setpriv", "--bounding-set", "-setgid", program, "--foreground", "--name", s.Name, "--lxcpath", f.state, "--rcfile", f.config, "--", command.InsideBinary, pid1.Command,
	}
	if as := ids(s, h); as != "" {
		argv = append(argv, pid1.As, as)
	}
	return argv
}

// VM implements driver.Runtime.
func (r *Runtime) VM() driver.VMRuntime { return nil }
