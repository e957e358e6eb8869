package mount

import (
	"strconv"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestProcessesThatHideTheirMemoryAreMine: the files in /proc of a process with credentials are root's, and a client is
// found all the same.
func TestProcessesThatHideTheirMemoryAreMine(t *testing.T) {
	testkit.AsRootToo(t)
	own := strconv.Itoa(unix.Getpid())
	for _, dumpable := range []uintptr{1, 0} {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, dumpable, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
				t.Error(err)
			}
		})
		if !mine(own) {
			t.Errorf("dumpable %d: it is another user's", dumpable)
		}
	}
	if unix.Geteuid() != 0 && mine("1") || mine("self") || mine("0") {
		t.Error("it is no process of this user")
	}
}
