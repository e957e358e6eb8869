package slurmfarm

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// releaseVariable names the release of Debian whose programs the hosts of farms have, Slurm
// among them, such as trixie. Without it they have those of this machine.
const releaseVariable = "BEE_TEST_SLURM"

// WithOtherSlurms runs further tests of a test's package, with the Slurm of Debian 13 and that
// of unstable.
func WithOtherSlurms(t *testing.T, tests ...string) {
	t.Helper()
	for _, release := range []string{"trixie", "sid"} {
		t.Run(release, func(t *testing.T) {
			root(t, release)
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.timeout=60m", "-test.run=^("+strings.Join(tests, "|")+")$")
			c.Env = append(os.Environ(), releaseVariable+"="+release)
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // else the clusters would outlive a test that is killed
			out, err := c.CombinedOutput()
			if err != nil {
				t.Error(err)
			}
			for _, name := range tests {
				if !strings.Contains(string(out), "--- PASS: "+name+" ") {
					t.Errorf("%s has not passed", name)
				}
			}
			t.Logf("with Slurm of %s:\n%s", release, out)
		})
	}
}

// root gives a directory whose /usr is that of a release of Debian with Slurm, which is made
// once for all tests that share a cache.
func root(t testing.TB, release string) string {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	home, err := os.UserCacheDir()
	if err != nil {
		home = os.TempDir()
	}
	dir := filepath.Join(cmp.Or(os.Getenv("BEE_TEST_CACHE"), filepath.Join(home, "bee-tests")), "slurm", release)
	c := exec.CommandContext(t.Context(), "hack/slurm.sh", release, dir)
	c.Dir = testkit.Root(t)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("hack/slurm.sh cannot take Slurm of Debian %s from the mirror that apt uses here: %v\n%s", release, err, out)
	}
	return dir
}

// modernize writes what newer versions of Slurm need: a setting without control groups, and the
// names of hosts, which older versions do not look up.
func (f *Farm) modernize(t testing.TB) {
	t.Helper()
	names := []byte("127.0.0.1 localhost\n")
	for i, name := range f.Names {
		names = fmt.Appendf(names, "%s %s\n", f.Addrs[i], name)
	}
	must(t, os.WriteFile(f.file("hosts"), names, 0o644)) // it is mounted already, and so stays the same file
	must(t, os.WriteFile(f.file("cgroup.conf"), []byte("CgroupPlugin=disabled\n"), 0o644))
}

// find gives the path of a program on the hosts.
func (f *Farm) find(t testing.TB, name string) string {
	t.Helper()
	if f.root == "" {
		return testkit.RequireTool(t, name)
	}
	for _, dir := range []string{"/usr/sbin", "/usr/bin"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(filepath.Join(f.root, path)); err == nil {
			return path
		}
	}
	t.Fatalf("%s has no program %s", f.root, name)
	return ""
}
