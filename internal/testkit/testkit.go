// Package testkit holds what tests of all packages share: the skip policy,
// readiness polling and the bee binary under test. Only tests import it.
package testkit

import (
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Strict tells whether a missing component fails a test instead of skipping
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

// RequireTool gives the path of a program that the test needs.
func RequireTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "%s is not installed (run `make test`, which installs it)", name)
	}
	return path
}

// RequireRoot skips a test that only root can run. The suite runs once as
// root and once as an ordinary user, so this skip is not a missing component.
func RequireRoot(t testing.TB) {
	t.Helper()
	if _, left := leftToUsers.Load(t.Name()); left {
		t.Fatal("it is left to the run as an ordinary user, and needs root: it would run in neither")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root; covered by the run as root")
	}
}

// RequireUser skips a test that only an ordinary user can run; see RequireRoot.
func RequireUser(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("needs an ordinary user; covered by the run as one")
	}
}

// leftToUsers are the tests, by name, that Once has root's run skip.
var leftToUsers sync.Map //nolint:gochecknoglobals // of the whole process, as tests are

// Once skips, as root, a test that takes long and cares for no user: the run as
// an ordinary one, whose rights are fewer, covers it.
func Once(t testing.TB) {
	t.Helper()
	leftToUsers.Store(t.Name(), nil)
	if os.Geteuid() == 0 && Strict() {
		t.Skip("covered by the run as an ordinary user")
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
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not so within %v: %v", within, err)
		}
		time.Sleep(pause)
		// A look may start a process or two, on a machine that is busy.
		pause = min(2*pause, max(100*time.Millisecond, time.Since(begun)/40), 500*time.Millisecond)
	}
}
