package rootless

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/hostdir"
	"github.com/bee-hpc/bee/internal/runtime/prefix"
)

// LoaderName is the name that runtime native has where an ordinary user runs it: programs
// are started by the image's own loader.
const LoaderName = "native-loader"

// loaderAttributes make a process of the host. It ends with its connection, and so has the
// time to end what it has started.
func loaderAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// probeLoader starts a program by a wrapper such as a prefix has.
func probeLoader(ctx context.Context) (driver.Facts, error) {
	dir, err := fsutil.TempDir("", "bee-probe-")
	if err != nil {
		return driver.Facts{}, err
	}
	defer fsutil.TryRemoveAll(dir)
	file := filepath.Join(dir, "wrapper")
	if err := core.WriteProgram(file, []byte("#!/bin/sh\nexec /bin/sh -c \"$@\"\n"), 0o700); err != nil {
		return driver.Facts{}, err
	}
	if out, err := exec.CommandContext(ctx, file, "exit 0").CombinedOutput(); err != nil {
		return driver.Facts{Reason: fmt.Sprintf("a script in %s cannot be run: %v: %s", os.TempDir(), err, out), Remedy: "Set TMPDIR to a directory whose programs may be run, or run bee as root."}, nil
	}
	return driver.Facts{Usable: true, Detail: map[string]string{"way": "the image's loader"}}, nil
}

// startLoader starts what stands for a container: a prefix of the image's programs, and the
// process that starts them.
func (n native) startLoader(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	s, err := newSetup(spec)
	if err != nil {
		return nil, err
	}
	s.Native, s.Loader, s.Hostname, s.Mounts = true, true, "", nil
	upper := filepath.Join(s.StateDir, "upper")
	if err := os.MkdirAll(upper, 0o700); err != nil {
		return nil, err
	}
	places, err := loaderPlaces(spec, &s, upper)
	if err != nil {
		return nil, err
	}
	in := prefix.Input{Tree: s.Tree, Binary: s.Binary, Env: spec.Env, Places: places}
	if n.host {
		p, err := prefix.OfHost(in)
		if err != nil {
			return nil, err
		}
		return n.startLoaded(ctx, spec, s, p)
	}
	p, err := prefix.Make(filepath.Join(upper, "prefix"), in)
	if err != nil {
		return nil, unsuited(spec.Name, err)
	}
	return n.startLoaded(ctx, spec, s, p)
}

// startLoaded starts the process that starts programs by a prefix.
func (n native) startLoaded(ctx context.Context, spec driver.ContainerSpec, s setup, p *prefix.Prefix) (driver.Container, error) {
	c, err := n.start(ctx, spec, s)
	if err != nil {
		return nil, err
	}
	box, is := c.(*container)
	if !is {
		return nil, errors.New("a container of another runtime")
	}
	return &loaded{container: box, prefix: p, socket: filepath.Join(s.RunDir, "node.sock")}, nil
}

// unsuited is the error of what an ordinary user cannot have without a container.
func unsuited(object string, err error) error {
	return &core.Error{Kind: core.Unsupported, Op: "run on the bare host", Object: object, Err: err, Remedy: "Run bee as root, or compare with another environment."}
}

// loaderPlaces are the places of a container's directories on the host.
func loaderPlaces(spec driver.ContainerSpec, s *setup, upper string) (map[string]string, error) {
	tools := filepath.Join(upper, "bee")
	if err := os.Mkdir(tools, 0o700); err != nil {
		return nil, err
	}
	for name, to := range map[string]string{"bee": s.Binary, "rsh": s.Binary, "run": s.RunDir} {
		if err := os.Symlink(to, filepath.Join(tools, name)); err != nil {
			return nil, err
		}
	}
	places := map[string]string{"/.bee": tools}
	for _, m := range spec.Mounts {
		target := path.Clean(m.Target)
		for other := range places {
			if strings.HasPrefix(target, other+"/") || strings.HasPrefix(other, target+"/") || target == other {
				return nil, unsuited(target, fmt.Errorf("an ordinary user cannot put it into %s", other))
			}
		}
		source, err := filepath.Abs(m.Source)
		if m.Dir != nil {
			source, err = hostdir.Real(m.Dir)
			if m.ReadOnly {
				return nil, unsuited(target, errors.New("an ordinary user cannot make it read-only"))
			}
		}
		if err != nil {
			return nil, err
		}
		if places[target], err = filepath.EvalSymlinks(source); err != nil {
			return nil, err
		}
	}
	for i, dir := range spec.Dirs {
		to := filepath.Join(upper, "dirs", fmt.Sprint(i))
		if err := os.MkdirAll(to, 0o755); err != nil {
			return nil, err
		}
		places[path.Clean(dir)] = to
	}
	return places, nil
}

// loaded is a container whose processes are those of the host.
type loaded struct {
	*container
	prefix *prefix.Prefix
	socket string // of the node
}

// Exec implements driver.Container.
func (l *loaded) Exec(ctx context.Context, c driver.Command) (driver.Process, error) {
	var err error
	c.Args, c.Env, c.Dir, err = l.prefix.Command(c.Args, c.Env, c.Dir)
	if named, is := errors.AsType[*prefix.PathError](err); is {
		return nil, &core.Error{Kind: core.Unsupported, Op: "run on the bare host", Object: named.Path, Err: err, Remedy: "Name files relative to the working directory, or run bee as root."}
	}
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.Env, func(e string) bool { return strings.HasPrefix(e, "BEE_NODE_SOCKET=") }) {
		c.Env = append(c.Env, "BEE_NODE_SOCKET="+l.socket)
	}
	return l.container.Exec(ctx, c)
}
