// Package charliecloud runs containers by ch-run. It asks of the host what
// rootless asks (user namespaces), but is a program that sites know and have
// installed already. The tree is the lower layer of an overlay made in a
// namespace of our own around ch-run, which also gives the container a PID
// namespace: ch-run itself makes none.
package charliecloud

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	securejoin "github.com/cyphar/filepath-securejoin"
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
	return driver.Info{Name: name, Summary: "Charliecloud's ch-run", MapsUsers: true}
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
		return i, os.Mkdir(i.Tree, 0o755)
	})
}

// Start implements driver.Runtime.
func (r *Runtime) Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	if err := command.NoSeccomp(name, spec); err != nil {
		return nil, err
	}
	s, h, err := command.Resolve(spec)
	if err != nil {
		return nil, &core.Error{Kind: core.KindOf(err), Op: "start charliecloud container", Object: spec.Name, Err: err}
	}
	program, err := exec.LookPath(r.o.Program) // here: what starts it has the container's PATH
	if err != nil {
		return nil, command.Failed("start charliecloud container", spec.Name, err)
	}
	l, err := prepare(s)
	if err != nil {
		return nil, errors.Join(err, l.remove())
	}
	argv := startCommand(program, s, h, l)
	// ch-run wants to know who calls; init's own environment is what was asked.
	env := append(append([]string(nil), s.Env...), "USER="+userName(s.Env))
	if !hasPath(s.Env) {
		env = append(env, "PATH="+os.Getenv("PATH"))
	}
	return r.launcher.Run(ctx, command.Launch{
		Argv: argv, Env: env, Name: s.Name, Owner: s.Owner, Driver: name, RunDir: s.RunDir, Mounts: s.Mounts, Bound: cgroup.Limit(core.MemoryLimit(s.Env)),
		// The program is the ancestor of all: killing it is enough.
		Remove: func(context.Context) error { return nil }, Clean: l.remove,
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

// layers are the directories of a container's root, in its state directory.
type layers struct{ top, upper, work, root string }

// point is where the i-th mount is bound for ch-run.
func (l layers) point(i int) string { return filepath.Join(l.top, "bind"+strconv.Itoa(i)) }

func (l layers) remove() error {
	if l.top == "" {
		return nil
	}
	return fsutil.RemoveAll(l.top)
}

// prepare makes the directories, with the mount points that the image lacks in
// the upper one, and the container's /etc/hosts.
func prepare(s driver.ContainerSpec) (layers, error) {
	l := layers{top: filepath.Join(s.StateDir, "upper")}
	l.upper, l.work, l.root = filepath.Join(l.top, "write"), filepath.Join(l.top, "work"), filepath.Join(l.top, "root")
	for _, d := range []string{l.upper, l.work, l.root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return l, err
		}
	}
	if _, err := command.HostsFile(s); err != nil {
		return l, err
	}
	// These ch-run itself mounts on.
	targets := map[string]bool{"/proc": true, "/sys": true, "/dev": true, "/tmp": true, "/etc/passwd": false, "/etc/group": false, "/etc/hosts": false, "/etc/resolv.conf": false}
	for i, m := range s.Mounts {
		info, err := os.Stat(m.Source)
		if err != nil {
			return l, err
		}
		targets[m.Target] = info.IsDir()
		if boundBefore(m) {
			if err := makePoint(l.point(i), info.IsDir()); err != nil {
				return l, err
			}
		}
	}
	for target, dir := range targets {
		if err := relink(s.Image.Tree, l.upper, target); err != nil {
			return l, err
		}
		if err := mountPoint(s.Image.Tree, l.upper, target, dir); err != nil {
			return l, err
		}
	}
	return l, keepModes(s.Image.Tree, l.upper)
}

// keepModes gives directories of the upper layer the modes that they have in the tree,
// once all is in them: their owner may not write to some.
func keepModes(tree, upper string) error {
	var made []string
	err := filepath.WalkDir(upper, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && p != upper {
			made = append(made, p)
		}
		return err
	})
	for _, p := range slices.Backward(made) { // those inside first
		info, lerr := os.Lstat(filepath.Join(tree, strings.TrimPrefix(p, upper)))
		if lerr == nil && info.IsDir() && info.Mode()&0o700 != 0o700 {
			err = errors.Join(err, os.Chmod(p, info.Mode()&(os.ModePerm|os.ModeSticky)))
		}
	}
	return err
}

// mountPoint makes a mount point in the upper layer if the tree has none.
func mountPoint(tree, upper, target string, dir bool) error {
	resolved, err := securejoin.SecureJoin(tree, target)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(resolved); err == nil {
		return nil
	}
	rel, err := filepath.Rel(tree, resolved)
	if err != nil {
		return err
	}
	above := rel
	if !dir {
		above = filepath.Dir(rel)
	}
	if err := makeAbove(tree, upper, above); err != nil || dir {
		return err
	}
	return makePoint(filepath.Join(upper, rel), false)
}

// makeAbove makes a directory, by its path in the tree, in the upper layer.
func makeAbove(tree, upper, dir string) error {
	at := ""
	for _, p := range strings.Split(filepath.Clean(dir), "/") { // directories of the tree keep their modes
		at = filepath.Join(at, p)
		mode := os.FileMode(0o755)
		if info, err := os.Stat(filepath.Join(tree, at)); err == nil {
			mode = info.Mode() & (os.ModePerm | os.ModeSticky)
		}
		made := filepath.Join(upper, at)
		if err := os.Mkdir(made, 0o700); err != nil {
			if errors.Is(err, os.ErrExist) {
				continue
			}
			return err
		}
		if err := os.Chmod(made, mode|0o700); err != nil { // for what comes into it; see keepModes
			return err
		}
	}
	return nil
}

func makePoint(path string, dir bool) error {
	if dir {
		return os.Mkdir(path, 0o755)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// inside resolves a target's links in the image, as ch-run follows them on the
// host.
func inside(tree, target string) string {
	resolved, err := securejoin.SecureJoin(tree, target)
	if err != nil {
		return target
	}
	return strings.TrimPrefix(resolved, filepath.Clean(tree))
}

// wrapper makes the root in the namespaces around ch-run. Its arguments are
// the overlay's options, the tree, the upper directory, the root, the number
// of binds, and for each of them ro or rw, its source and where to bind it, for
// ch-run knows no read-only binds, nor sources with a colon; then the command. Read-only
// is also what is mounted below a source. The flags that a mount has stay: without those of
// the host the kernel refuses (mount_namespaces(7), locked flags).
const wrapper = `set -e
below() {
  while read -r _ _ _ _ point flags _; do
    case $point in *\\*) point=$(printf %b "$point");; esac
    case $point in "$1"|"$1"/*) mount -o "remount,bind,ro${flags#r?}" "$point";; esac
  done </proc/self/mountinfo
}
options=$1 tree=$2 upper=$3 root=$4 count=$5; shift 5
if ! mount -t overlay -o "$options" overlay "$root" 2>/dev/null; then
  cp -a "$tree/." "$root/" && cp -a "$upper/." "$root/"
  mount --bind "$root" "$root"
fi
while [ "$count" -gt 0 ]; do
  mount --rbind "$2" "$3"
  if [ "$1" = ro ]; then below "$3"; fi
  shift 3; count=$((count - 1))
done
exec "$@"`

// startCommand is the command line of a container: namespaces, the wrapper,
// ch-run, and our init.
func startCommand(program string, s driver.ContainerSpec, h command.Host, l layers) []string {
	options := "lowerdir=" + escape(s.Image.Tree) + ",upperdir=" + escape(l.upper) + ",workdir=" + escape(l.work) + ",userxattr"
	argv := []string{
		"unshare", "--user", "--map-root-user", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
		"/bin/sh", "-c", wrapper, "bee-charliecloud", options, s.Image.Tree, l.upper, l.root,
	}
	var before, binds []string
	for i, m := range s.Mounts {
		source := m.Source
		if boundBefore(m) {
			source = l.point(i)
			before = append(before, access(m), m.Source, source)
		}
		binds = append(binds, "--bind", source+":"+inside(s.Image.Tree, m.Target))
	}
	argv = append(argv, strconv.Itoa(len(before)/3))
	argv = append(argv, before...)
	uid, gid := s.IDs(h.UID, h.GID)
	argv = append(argv, "setpriv", "--no-new-privs", program, "--write", "--private-tmp", "--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(gid), "--cd", "/")
	if s.User != nil { // whom the image's own accounts know
		argv = append(argv, "--no-passwd")
	}
	argv = append(argv, binds...)
	argv = append(argv, "--bind", filepath.Join(s.StateDir, "hosts")+":/etc/hosts")
	return append(argv, l.root, "--", command.InsideBinary, pid1.Command)
}

// boundBefore reports whether the wrapper binds a mount, and ch-run what that has bound.
func boundBefore(m driver.Mount) bool { return m.ReadOnly || m.Dir != nil }

func access(m driver.Mount) string {
	if m.ReadOnly {
		return "ro"
	}
	return "rw"
}

// escape keeps separators of mount options out of paths.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// VM implements driver.Runtime.
func (r *Runtime) VM() driver.VMRuntime { return nil }
