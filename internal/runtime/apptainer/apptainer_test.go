package apptainer

import (
	"os"
	"os/exec"
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

// TestConformance runs where Apptainer is installed; Debian has no package of it.
func TestConformance(t *testing.T) {
	if _, err := exec.LookPath("apptainer"); err != nil {
		t.Skip("apptainer is not installed, and is no part of Debian: its command lines alone are tested")
	}
	binary := testkit.Binary(t)
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return New(command.Options{Binary: binary}) }, Binary: binary, Inherits: true, Memory: drivertest.LimitsMemory(t)}.Run(t)
}

func TestCommandLine(t *testing.T) {
	s := driver.ContainerSpec{Hostname: "h0", Image: driver.LocalImage{Tree: "/tree"}, Mounts: []driver.Mount{{Source: "/s,1", Target: "/work"}, {Source: "/in", Target: "/data", ReadOnly: true}}}
	common := "apptainer --silent exec --userns --pid --no-init --cleanenv --no-eval --no-home --no-mount cwd,tmp,hostfs,bind-paths --writable-tmpfs --no-privs --pwd / "
	rest := `--uts --hostname h0 --mount type=bind,"source=/s,1",target=/work --mount type=bind,source=/in,target=/data,ro --mount type=bind,source=/hosts,target=/etc/hosts,ro /tree /.bee/bee container-init`
	for name, test := range map[string]struct {
		root bool
		want string
	}{"user": {false, ""}, "root": {true, "--fakeroot "}} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Root = test.root
			drivertest.Same(t, common+test.want+rest, strings.Join(execCommand("apptainer", s, "/hosts"), " "))
		})
	}
	drivertest.Same(t, []string{"HOME=/h", "APPTAINERENV_A=1\n2"}, programEnv([]string{"HOME=/h"}, []string{"A=1\n2"}))
}

// TestMountsThroughLinks: none is made where a job before has put a link in its way.
func TestMountsThroughLinks(t *testing.T) {
	volume := t.TempDir()
	if err := os.MkdirAll(filepath.Join(volume, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(volume, "dir", "out")); err != nil {
		t.Fatal(err)
	}
	for place, refused := range map[string]bool{"/v/dir": false, "/v/new/below": false, "/v/dir/out": true, "/v/dir/out/below": true, "/elsewhere/dir/out": false} {
		err := throughLinks([]driver.Mount{{Source: "/data", Target: place}, {Source: volume, Target: "/v"}})
		if (err != nil) != refused || refused && !core.IsKind(err, core.Unsupported) {
			t.Errorf("%s: %v", place, err)
		}
	}
}

func TestHostRootMayNotChangeTheKernel(t *testing.T) {
	host := t.TempDir()
	for _, d := range []string{"sys", "proc/sys", "proc/irq", "proc/1"} {
		if err := os.MkdirAll(filepath.Join(host, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	work := driver.Mount{Source: "/s", Target: "/work"}
	s := forHostRoot(driver.ContainerSpec{Root: true, Mounts: []driver.Mount{work}}, host)
	want := []driver.Mount{
		work,
		{Source: host + "/sys", Target: "/sys", ReadOnly: true},
		{Source: host + "/proc/sys", Target: "/proc/sys", ReadOnly: true},
		{Source: host + "/proc/irq", Target: "/proc/irq", ReadOnly: true},
	}
	if s.Root {
		t.Error("root asks for subordinate ids, of which he has none")
	}
	drivertest.Same(t, want, s.Mounts)
}
