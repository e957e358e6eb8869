package mount

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst"
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
	if mine("self") || mine("0") {
		t.Error("it is no process of this user")
	}
	if init, err := os.Stat("/proc/1"); err == nil && init.Sys().(*syscall.Stat_t).Uid != uint32(unix.Geteuid()) && mine("1") { // on Linux
		t.Error("process 1 is another user's")
	}
}

// TestClientsThatProcHidesAreFound by their lock, which several have, and which ends with them.
func TestClientsThatProcHidesAreFound(t *testing.T) {
	c := burst.Config{Dir: t.TempDir()}
	runs := func(want bool) {
		t.Helper()
		if is, err := ClientRuns(c.Dir); err != nil || is != want {
			t.Errorf("a client runs: %v, %v", is, err)
		}
	}
	runs(false)
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
		t.Errorf("looking for clients has made %v, %v", left, err)
	}
	one, err := lockClient(c)
	if err != nil {
		t.Fatal(err)
	}
	two, err := lockClient(c)
	if err != nil {
		t.Fatal(err)
	}
	runs(true)
	one.Unlock()
	runs(true)
	two.Unlock()
	runs(false)
}

// TestRecoverOfARelayedVolume: its node has gone, so that credentials have to be given, whatever the I/O process has
// noted since its record was read.
func TestRecoverOfARelayedVolume(t *testing.T) {
	volumes := t.TempDir()
	c := burst.Config{ID: "1a2b3c4d", Remote: "s3://b/p", Place: t.TempDir(), Dir: filepath.Join(volumes, "1a2b3c4d"), Relay: true, Epoch: 3}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the credentials may be wrong at first
		got, err := Recover(t.Context(), volumes, c.ID)
		if err != nil || !got.Sent || got.Relay || got.Epoch != 3 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
