// Package charliecloud runs containers by ch-run. It asks of the host what
// rootless asks (user namespaces), but is a program that sites know and have
// installed already. Package overlay makes the root around ch-run, and a PID
// namespace: ch-run itself makes neither.
package charliecloud

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/overlay"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

const name = "charliecloud"

// Runtime implements driver.Runtime.
type Runtime struct {
	o        command.Options
	launcher command.Launcher
}

// New makes the runtime. It costs nothing until it is used.
func New(o command.Options) *Runtime {
	o.Program = cmp.Or(o.Program, "ch-run")
	return &Runtime{o: o}
}

// Info implements driver.Runtime.
func (r *Runtime) Info() driver.Info {
	return driver.Info{Name: name, Summary: "Charliecloud's ch-run", MapsUsers: true, OwnMounts: true}
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
	if err := command.NoSeccomp(name, spec); err != nil {
		return nil, err
	}
	s, h, err := command.Resolve(name, spec)
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath(r.o.Program) // here: what starts it has the container's PATH
	if err != nil {
		return nil, command.Failed("start charliecloud container", spec.Name, err)
	}
	root, err := overlay.New(s)
	if err == nil {
		_, err = command.HostsFile(s)
	}
	if err != nil {
		return nil, errors.Join(err, root.Remove())
	}
	argv := startCommand(program, s, h, root)
	// ch-run wants to know who calls; init's own environment is what was asked.
	env := append(append([]string(nil), s.Env...), "USER="+userName(s.Env))
	if !hasPath(s.Env) {
		env = append(env, "PATH="+os.Getenv("PATH"))
	}
	return r.launcher.Run(ctx, command.Launch{
		Argv: argv, Env: env, Name: s.Name, Owner: s.Owner, Driver: name, RunDir: s.RunDir, Mounts: s.Mounts,
		Bound: cgroup.Limit(core.MemoryLimit(s.Env)), Clean: root.Remove,
	})
}

func userName(env []string) string {
	for _, e := range append([]string{"USER=" + os.Getenv("USER")}, env...) {
		if v, ok := strings.CutPrefix(e, "USER="); ok && v != "" {
			return v
		}
	}
	return "user"
}

func hasPath(env []string) bool {
	for _, e := range env {
		if strings.HasPrefix(e, "PATH=") {
			return true
		}
	}
	return false
}

// startCommand is the command line of a container: namespaces, ch-run, and our init.
func startCommand(program string, s driver.ContainerSpec, h command.Host, root overlay.Root) []string {
	uid, gid := s.IDs(h.UID, h.GID)
	argv := []string{"setpriv", "--no-new-privs", program, "--write", "--private-tmp", "--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(gid), "--cd", "/"}
	if s.User != nil { // whom the image's own accounts know
		argv = append(argv, "--no-passwd")
	}
	for i, m := range s.Mounts {
		argv = append(argv, "--bind", root.Source(i)+":"+root.Inside(m.Target))
	}
	argv = append(argv, "--bind", filepath.Join(s.StateDir, "hosts")+":/etc/hosts", root.Dir, "--", command.InsideBinary, pid1.Command)
	return root.Command("bee-charliecloud", argv...)
}

// VM implements driver.Runtime.
func (r *Runtime) VM() driver.VMRuntime { return nil }
