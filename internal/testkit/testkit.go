// Package testkit holds what tests of all packages share: the skip policy,
// readiness polling and the bee binary under test. Only tests import it.
package testkit

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Strict reports whether a missing component fails a test instead of skipping
// it: in CI, and wherever BEE_REQUIRE_ALL is set.
func Strict() bool { return os.Getenv("CI") != "" || os.Getenv("BEE_REQUIRE_ALL") != "" }

// Missing ends the test for want of a component: a failure where Strict, a
// skip elsewhere.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if Strict() {
		t.Fatalf("missing component: "+format, args...)
	}
	t.Skipf("missing component: "+format, args...)
}

// RequireTool gives the path of a program that the test needs. Where tests have to be
// short, as in `make quick`, those of programs that take long are left out.
func RequireTool(t testing.TB, name string) string {
	t.Helper()
	switch name {
	case "mmdebstrap", "qemu-system-x86_64", "slurmctld", "sshd", "docker", "podman", "ch-run", "lxc-start", "chromium":
		if testing.Short() {
			t.Skipf("it uses %s; covered by `make test`", name)
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "%s is not installed (run `make test`, which installs it)", name)
	}
	return path
}

// RequireFUSE ends a test where this user cannot mount a file system of a process.
func RequireFUSE(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		RequireTool(t, "fusermount3")
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		Missing(t, "the test needs /dev/fuse: %v", err)
	} else {
		f.Close()
	}
}

// RequireRoot skips a test that only root can run. `make test` runs every test as an
// ordinary user and those with this call, or with AsRootToo, as root: so this skip is
// not a missing component. The call stands in the test itself, where hack/test.sh
// looks for it.
func RequireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if tests := os.Getenv("BEE_TEST_AS_ROOT"); tests != "" && !regexp.MustCompile(tests).MatchString(topLevel(t)) {
		t.Fatal("it needs root, and is not among the tests that run as root: call testkit.RequireRoot(t) in the test itself")
	}
	t.Skip("needs root; covered by the run as root")
}

// AsRootToo marks a test that runs as root as well, because root changes what is
// tested. Like RequireRoot it stands in the test itself.
func AsRootToo(testing.TB) {}

// RequireUser skips a test that only an ordinary user can run; see RequireRoot.
func RequireUser(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("needs an ordinary user; covered by the run as one")
	}
}

func topLevel(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// Everything reports whether long forms of tests run as well, as in `make test-long`.
func Everything() bool { return os.Getenv("BEE_TEST_LONG") != "" }

// Long skips a test, outside of `make test-long`, whose short form is among the
// others: nothing is promised that only a long test shows.
func Long(t testing.TB, short string) {
	t.Helper()
	if !Everything() {
		t.Skipf("covered by `make test-long`; its short form is %s", short)
	}
}

// busy is how many times as long as on a machine that does nothing else something
// may take: what is wrong is seen later then, but never what is only slow.
const busy = 3

// Eventually polls check until it gives nil, and fails the test with its last
// error when the time is over: busy times that in which it should be so.
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	within *= busy
	begun := time.Now()
	deadline := begun.Add(within)
	pause := time.Millisecond
	for {
		look := time.Now()
		err := check()
		if err == nil {
			return
		}
		took := time.Since(look)
		if time.Now().After(deadline) {
			t.Fatalf("not so within %v: %v", within, err)
		}
		// A look may start a process or two, on a machine that is busy: who waits is in the way of
		// what is awaited for a quarter of the time at most.
		time.Sleep(max(pause, min(3*took, time.Second)))
		pause = min(2*pause, max(100*time.Millisecond, time.Since(begun)/20), 3*time.Second)
	}
}

// Setenv sets variables, KEY=VALUE, of this process for a test.
func Setenv(t testing.TB, variables []string) {
	t.Helper()
	for _, v := range variables {
		key, value, _ := strings.Cut(v, "=")
		t.Setenv(key, value)
	}
}
