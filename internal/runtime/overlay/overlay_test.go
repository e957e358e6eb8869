package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
)

func TestCommandLine(t *testing.T) {
	s := driver.ContainerSpec{StateDir: "/state", Image: driver.LocalImage{Tree: "/no/tree:1"}, Mounts: []driver.Mount{{Source: "/s", Target: "/work"}, {Source: "/in", Target: "/data", ReadOnly: true}}}
	r := Of(s)
	got := strings.Join(r.Command("bee-test", "program", "--bind", r.Source(0), r.Source(1)), " ")
	got = strings.Replace(got, wrapper, "WRAPPER", 1)
	drivertest.Same(t, `unshare --user --map-root-user --mount --propagation=private --pid --fork --kill-child --mount-proc -- /bin/sh -c WRAPPER bee-test lowerdir=/no/tree\:1,upperdir=/state/upper/write,workdir=/state/upper/work,userxattr /no/tree:1 /state/upper/write /state/upper/root 1 ro /in /state/upper/bind1 program --bind /s /state/upper/bind1`, got)
}

// TestLinksOnTheWayToMounts lead where they lead inside, for a program on the host, too.
func TestLinksOnTheWayToMounts(t *testing.T) {
	dir := t.TempDir()
	tree, upper := filepath.Join(dir, "tree"), filepath.Join(dir, "upper")
	for _, d := range []string{filepath.Join(tree, "usr/etc"), filepath.Join(tree, "run"), upper} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"etc": "/usr/etc", "usr/etc/hosts": "/run/hosts", "usr/etc/resolv.conf": "../../../../../run/resolv.conf", "usr/etc/passwd": "group", "a": "/b", "b": "/a", "up": "../../../..", "dev": "up",
	} {
		if err := os.Symlink(to, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"/etc/hosts", "/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/dev", "/none/at/all"} {
		if err := relink(tree, upper, target); err != nil {
			t.Fatal(err)
		}
	}
	if err := relink(tree, upper, "/a/x"); err == nil {
		t.Error("links that go round are followed")
	}
	for name, want := range map[string]string{"etc": "usr/etc", "usr/etc/hosts": "../../run/hosts", "usr/etc/resolv.conf": "../../run/resolv.conf", "up": "."} {
		if got, err := os.Readlink(filepath.Join(upper, name)); err != nil || got != want {
			t.Errorf("%s leads to %q, %v; want %q", name, got, err, want)
		}
	}
	if left, err := os.ReadDir(filepath.Join(upper, "usr/etc")); err != nil || len(left) != 2 {
		t.Errorf("links that stay inside are replaced too: %v, %v", left, err)
	}
}

func TestMountPoints(t *testing.T) {
	dir := t.TempDir()
	tree, upper := filepath.Join(dir, "tree"), filepath.Join(dir, "upper")
	for _, d := range []string{filepath.Join(tree, "usr/local"), filepath.Join(tree, "sticky"), upper} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(tree, "sticky"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr/local", filepath.Join(tree, "link")); err != nil {
		t.Fatal(err)
	}
	for target, isDir := range map[string]bool{"/usr/local": true, "/link/a/b": true, "/sticky/f": false} {
		if err := mountPoint(tree, upper, target, isDir); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(upper, "usr/local/a/b")); err != nil || !info.IsDir() {
		t.Errorf("through the link: %v", err)
	}
	if info, err := os.Stat(filepath.Join(upper, "sticky")); err != nil || info.Mode()&os.ModeSticky == 0 || info.Mode().Perm() != 0o777 {
		t.Errorf("mode of a directory of the tree: %v, %v", info, err)
	}
	if got := inside(tree, "/link/a"); got != "/usr/local/a" {
		t.Errorf("target through the link: %s", got)
	}
}
