package rootless

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"golang.org/x/sys/unix"
)

// NativeName is the runtime that runs an image's programs on the bare host.
const NativeName = "native"

// HostName is the runtime that runs programs that the host has installed.
const HostName = "native-host"

// Native returns the runtime `native`: the programs of an image on the bare host, for
// comparison with containers. Nothing isolates them: they have the host's processes, users
// and devices, and every right of their user. For root the one namespace is that of mounts,
// in which the image's directories are the root, without an overlay between. For ordinary
// users there is none: the image's loader starts its programs.
func Native(o Options) driver.Runtime { return native{Runtime: New(o)} }

// HostPrograms returns the runtime `native-host`: programs that the host has installed, with
// the volume and the inputs of the job. For root these are at the job's paths, in a namespace
// of mounts with the host's directories. An ordinary user has them where they are on the host,
// and paths in variables, arguments and the working directory are translated.
func HostPrograms(o Options) driver.Runtime { return native{Runtime: New(o), host: true} }

// native is a Runtime whose children are no containers.
type native struct {
	*Runtime
	host bool // the programs are the host's
}

// Info implements driver.Runtime.
func (n native) Info() driver.Info {
	if n.host {
		return driver.Info{Name: HostName, Summary: "no container: programs that the host has installed, for measurements", HostPrograms: true, OwnMounts: true}
	}
	i := driver.Info{Name: NativeName, Summary: "no container: the image's programs on the bare host, for measurements", OwnMounts: true}
	if os.Geteuid() != 0 {
		i.Name = LoaderName
	}
	return i
}

// Probe implements driver.Runtime.
func (n native) Probe(ctx context.Context) (driver.Facts, error) {
	switch {
	case os.Geteuid() != 0 && n.host:
		return driver.Facts{Usable: true}, nil
	case os.Geteuid() != 0:
		return probeLoader(ctx)
	}
	dir, err := fsutil.TempDir("", "bee-probe-")
	if err != nil {
		return driver.Facts{}, err
	}
	defer fsutil.TryRemoveAll(dir)
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return driver.Facts{}, err
	}
	c, err := n.spawn(ctx, setup{Tree: tree, StateDir: dir, User: command.Caller(), ProbeOnly: true, Native: true}, nil)
	if err != nil {
		return driver.Facts{Reason: err.Error(), Remedy: "bee may be inside a container without the right to mount; run it outside."}, nil
	}
	return driver.Facts{Usable: true}, c.Wait()
}

// Start implements driver.Runtime.
func (n native) Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	if facts, err := n.Probe(ctx); err != nil || !facts.Usable {
		return nil, &core.Error{Kind: core.Unsupported, Op: "run on the bare host", Object: spec.Name, Err: errors.Join(err, errors.New(facts.Reason)), Remedy: facts.Remedy}
	}
	if spec.Seccomp {
		return nil, &core.Error{Kind: core.Unsupported, Op: "run on the bare host", Object: spec.Name, Err: errors.New("runtime native has no filter of system calls"), Remedy: "Leave out seccomp."}
	}
	if n.host {
		spec.Image.Tree = "/"
	}
	if os.Geteuid() != 0 {
		return n.startLoader(ctx, spec)
	}
	s, err := newSetup(spec)
	if err != nil {
		return nil, err
	}
	s.Native, s.Host, s.Hostname = true, n.host, "" // the host's name is not another's
	return n.start(ctx, spec, s)
}

// nativeAttributes make a process of the host with mounts of its own.
func nativeAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL, Setsid: true}
}

// own are directories that are not the image's: the host's, or empty ones in memory.
var own = map[string]bool{"proc": true, "sys": true, "dev": true, "tmp": true, "run": true, ".bee": true} // a table

// skeleton is a root in memory in which each directory of the image is bound read-only, so
// that its programs and libraries are read as the host reads its own. /etc is a copy, as
// names and addresses are added to it.
func (s *setup) skeleton() (string, error) {
	top := filepath.Join(s.StateDir, "upper")
	if err := os.MkdirAll(top, 0o700); err != nil {
		return "", err
	}
	if err := unix.Mount("tmpfs", top, "tmpfs", 0, "mode=755"); err != nil {
		return "", fmt.Errorf("mount memory for the root directory: %w", err)
	}
	root := filepath.Join(top, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(s.Tree)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if own[e.Name()] {
			continue
		}
		if err := s.graft(root, e); err != nil {
			return "", fmt.Errorf("place /%s: %w", e.Name(), err)
		}
	}
	for dir, mode := range map[string]os.FileMode{"tmp": 0o777 | os.ModeSticky, "run": 0o755} {
		path := filepath.Join(root, dir)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, mode)); err != nil {
			return "", err
		}
	}
	return root, nil
}

// graft puts one entry of the image's root directory in place.
func (s *setup) graft(root string, e os.DirEntry) error {
	from, to := filepath.Join(s.Tree, e.Name()), filepath.Join(root, e.Name())
	switch {
	case e.Type()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case e.Name() == "etc" && e.IsDir():
		return copyTree(from, to)
	case e.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	case e.Type().IsRegular():
		if err := os.WriteFile(to, nil, 0o644); err != nil {
			return err
		}
	default:
		return nil
	}
	if s.Host { // whose directories may have file systems of their own
		return errors.Join(unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""), unix.Mount("", to, "", unix.MS_REC|unix.MS_PRIVATE, ""))
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return readOnly(to)
}

// bindHost puts a directory of the host in place with all that is mounted below it.
func bindHost(root, dir string) error {
	to, err := inside(root, dir, true)
	if err != nil {
		return err
	}
	return unix.Mount(dir, to, "", unix.MS_BIND|unix.MS_REC, "")
}
