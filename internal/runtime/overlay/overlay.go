// Package overlay makes the root of a container in namespaces around a program that makes
// no such root of its own: an image's tree, read-only, below a layer of the container's,
// with a place for each mount.
//
// It knows no program's options: those are the adapters'.
package overlay

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Root is the root of a container, with its layer in the container's state directory.
type Root struct {
	// Dir is where the program of Command finds it.
	Dir string

	tree, top, upper, work string
	mounts                 []driver.Mount
}

// point is where the i-th mount is bound for the program.
func (r Root) point(i int) string { return filepath.Join(r.top, "bind"+strconv.Itoa(i)) }

// Remove removes what the container wrote. Idempotent.
func (r Root) Remove() error {
	if r.top == "" {
		return nil
	}
	return fsutil.RemoveAll(r.top)
}

// New makes the directories of a root, with the mount points that the image lacks in the
// upper one. What it returns with an error is to be removed too.
func New(s driver.ContainerSpec) (Root, error) {
	r := Of(s)
	for _, d := range []string{r.upper, r.work, r.Dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return r, err
		}
	}
	// These every program mounts on.
	targets := map[string]bool{"/proc": true, "/sys": true, "/dev": true, "/tmp": true, "/etc/passwd": false, "/etc/group": false, "/etc/hosts": false, "/etc/resolv.conf": false}
	for i, m := range s.Mounts {
		info, err := os.Stat(m.Source)
		if err != nil {
			return r, err
		}
		targets[m.Target] = info.IsDir()
		if boundBefore(m) {
			if err := makePoint(r.point(i), info.IsDir()); err != nil {
				return r, err
			}
		}
	}
	for target, dir := range targets {
		if err := relink(r.tree, r.upper, target); err != nil {
			return r, err
		}
		if err := mountPoint(r.tree, r.upper, target, dir); err != nil {
			return r, err
		}
	}
	return r, keepModes(r.tree, r.upper)
}

// Of returns the root of a container, of which New has made nothing yet.
func Of(s driver.ContainerSpec) Root {
	top := filepath.Join(s.StateDir, "upper")
	return Root{
		Dir: filepath.Join(top, "root"), tree: s.Image.Tree, top: top, upper: filepath.Join(top, "write"), work: filepath.Join(top, "work"), mounts: s.Mounts,
	}
}

// Source is what the program binds as the i-th mount.
func (r Root) Source(i int) string {
	if boundBefore(r.mounts[i]) {
		return r.point(i)
	}
	return r.mounts[i].Source
}

// Inside resolves a target's links in the image, for programs that follow them on the host.
func (r Root) Inside(target string) string { return inside(r.tree, target) }

// Command is the command line of a program in namespaces with the root. name is that of the
// shell that makes it.
func (r Root) Command(name string, program ...string) []string {
	options := "lowerdir=" + escape(r.tree) + ",upperdir=" + escape(r.upper) + ",workdir=" + escape(r.work) + ",userxattr"
	argv := []string{
		"unshare", "--user", "--map-root-user", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
		"/bin/sh", "-c", wrapper, name, options, r.tree, r.upper, r.Dir,
	}
	var before []string
	for i, m := range r.mounts {
		if boundBefore(m) {
			before = append(before, access(m), m.Source, r.point(i))
		}
	}
	argv = append(argv, strconv.Itoa(len(before)/3))
	return append(append(argv, before...), program...)
}

// wrapper makes the root in the namespaces around the program. Its arguments are
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

// boundBefore reports whether the wrapper binds a mount, and the program what that has bound.
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
