package charliecloud

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestMain(m *testing.M) {
	drivertest.OwnerMain(func() driver.Runtime { return New(command.Options{}) })
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireTool(t, "ch-run")
	binary := testkit.Binary(t)
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return New(command.Options{Binary: binary}) }, Binary: binary, SharedUTS: true, NamespaceRoot: true, Inherits: true, Memory: drivertest.LimitsMemory(t)}.Run(t)
}

func TestProbeSaysThatItIsNotInstalled(t *testing.T) {
	facts, err := New(command.Options{Program: "no-such-ch-run", Binary: testkit.Binary(t)}).Probe(t.Context())
	if err != nil || facts.Usable || facts.Reason != "it is not installed here" {
		t.Errorf("got %+v, %v", facts, err)
	}
}

func TestCommandLine(t *testing.T) {
	s := driver.ContainerSpec{StateDir: "/state", Image: driver.LocalImage{Tree: "/no/tree:1"}, Mounts: []driver.Mount{{Source: "/s", Target: "/work"}, {Source: "/in", Target: "/data", ReadOnly: true}}}
	l := layers{top: "/t", upper: "/t/write", work: "/t/work", root: "/t/root"}
	for name, test := range map[string]struct {
		root bool
		user *core.Account
		ids  string
		own  string
	}{"caller": {false, nil, "--uid 1000 --gid 100", ""}, "root": {true, nil, "--uid 0 --gid 0", ""}, "the image's": {false, &core.Account{UID: 7, GID: 8}, "--uid 7 --gid 8", "--no-passwd "}} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Root, s.User = test.root, test.user
			got := strings.Join(startCommand("ch-run", s, command.Host{UID: 1000, GID: 100}, l), " ")
			got = strings.Replace(got, wrapper, "WRAPPER", 1)
			want := `unshare --user --map-root-user --mount --propagation=private --pid --fork --kill-child --mount-proc -- /bin/sh -c WRAPPER bee-charliecloud lowerdir=/no/tree\:1,upperdir=/t/write,workdir=/t/work,userxattr /no/tree:1 /t/write /t/root 1 ro /in /t/bind1 ` +
				`setpriv --no-new-privs ch-run --write --private-tmp ` + test.ids + ` --cd / ` + test.own + `--bind /s:/work --bind /t/bind1:/data --bind /state/hosts:/etc/hosts /t/root -- /.bee/bee container-init`
			drivertest.Same(t, want, got)
		})
	}
}

// TestLinksOnTheWayToMounts lead where they lead inside, for ch-run on the host, too.
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
