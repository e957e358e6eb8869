// Package apptainer runs containers by Apptainer's command line, on an unpacked
// tree, which Apptainer calls a sandbox. SingularityCE reads the same options.
package apptainer

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

const name = "apptainer"

// Runtime implements driver.Runtime.
type Runtime struct {
	o        command.Options
	launcher command.Launcher
}

// New makes the runtime. It costs nothing until it is used.
func New(o command.Options) *Runtime {
	o.Program = cmp.Or(o.Program, "apptainer")
	return &Runtime{o: o}
}

// Info implements driver.Runtime.
func (r *Runtime) Info() driver.Info {
	return driver.Info{Name: name, Summary: "Apptainer, on an unpacked tree", OwnMounts: true}
}

// Needs implements driver.Runtime.
func (r *Runtime) Needs() driver.ImageForm { return driver.Tree }

// Prepare implements driver.Runtime.
func (r *Runtime) Prepare(_ context.Context, i driver.LocalImage) error {
	return command.PrepareTree(i)
}

// Probe implements driver.Runtime.
func (r *Runtime) Probe(ctx context.Context) (driver.Facts, error) {
	return command.Probe(ctx, r, r.o.Binary, func(_ context.Context, dir string) (driver.LocalImage, error) {
		i := driver.LocalImage{Tree: filepath.Join(dir, "tree")}
		for _, d := range []string{"", "dev", "proc", "sys", "tmp", "etc"} {
			if err := os.Mkdir(filepath.Join(i.Tree, d), 0o755); err != nil {
				return i, err
			}
		}
		return i, nil
	})
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
	if err := throughLinks(s.Mounts); err != nil {
		return nil, err
	}
	if h.UID == 0 {
		s = forHostRoot(s, "/")
	}
	hosts, err := command.HostsFile(s)
	if err != nil {
		return nil, err
	}
	return r.launcher.Run(ctx, command.Launch{
		Argv: execCommand(r.o.Program, s, hosts), Env: programEnv(os.Environ(), s.Env), Name: s.Name, Owner: s.Owner,
		Driver: name, RunDir: s.RunDir, Mounts: s.Mounts, Bound: cgroup.Limit(core.MemoryLimit(s.Env)),
	})
}

// throughLinks refuses mounts whose place in another one is a link, or behind one, as a job
// before may have made it. Apptainer follows it to the host, and makes a directory there.
func throughLinks(mounts []driver.Mount) error {
	for _, m := range mounts {
		for _, in := range mounts {
			rel, err := filepath.Rel(in.Target, m.Target)
			if err != nil || rel == "." || !filepath.IsLocal(rel) {
				continue
			}
			at := in.Source
			for name := range strings.SplitSeq(rel, "/") {
				at = filepath.Join(at, name)
				if info, err := os.Lstat(at); err != nil || info.Mode()&os.ModeSymlink == 0 {
					continue
				}
				return &core.Error{
					Kind: core.Unsupported, Op: "mount", Object: m.Target, Err: fmt.Errorf("%s is a link, and expected a directory or nothing", at),
					Remedy: "Remove the link from the volume, or mount it elsewhere.",
				}
			}
		}
	}
	return nil
}

// forHostRoot changes what a container is to be where the host's root starts it.
// He is root inside as he is, and has no subordinate ids, which --fakeroot would
// ask for. And he owns the files by which /proc and /sys, below host, let the
// host's kernel be changed, capabilities or not: those become read-only.
func forHostRoot(s driver.ContainerSpec, host string) driver.ContainerSpec {
	s.Root = false
	s.Mounts = slices.Clip(s.Mounts)
	for _, path := range []string{"/sys", "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"} {
		source := filepath.Join(host, path)
		if _, err := os.Lstat(source); err == nil {
			s.Mounts = append(s.Mounts, driver.Mount{Source: source, Target: path, ReadOnly: true})
		}
	}
	return s
}

// programEnv hands the container's environment over in the program's own, and
// not on its command line, which everyone on the host can read.
func programEnv(own, env []string) []string {
	out := append([]string(nil), own...)
	for _, e := range env {
		out = append(out, "APPTAINERENV_"+e)
	}
	return out
}

// execCommand is the command line of a container. /dev, with GPUs and
// RDMA devices, and /dev/shm are the host's, as is the network; IPC too.
func execCommand(program string, s driver.ContainerSpec, hosts string) []string {
	argv := []string{
		program, "--silent", "exec", "--userns", "--pid", "--no-init", "--cleanenv", "--no-eval", "--no-home", "--no-mount", "cwd,tmp,hostfs,bind-paths",
		"--writable-tmpfs", "--no-privs", "--pwd", "/",
	}
	if s.Root {
		argv = append(argv, "--fakeroot")
	}
	if s.Hostname != "" {
		argv = append(argv, "--uts", "--hostname", s.Hostname)
	}
	for _, m := range s.Mounts {
		argv = append(argv, "--mount", bindOption(m))
	}
	argv = append(argv, "--mount", bindOption(driver.Mount{Source: hosts, Target: "/etc/hosts", ReadOnly: true}))
	return append(argv, s.Image.Tree, command.InsideBinary, pid1.Command)
}

// bindOption is the value of --mount, where Apptainer says "ro".
func bindOption(m driver.Mount) string {
	if !m.ReadOnly {
		return command.MountOption(m)
	}
	m.ReadOnly = false
	return strings.TrimSuffix(command.MountOption(m), "\n") + ",ro"
}

// VM implements driver.Runtime.
func (r *Runtime) VM() driver.VMRuntime { return nil }
