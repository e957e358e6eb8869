package podman

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestAProbeLeavesNoProcess of podman's behind, and does not end one that was there.
func TestAProbeLeavesNoProcess(t *testing.T) {
	testkit.RequireTool(t, "podman")
	if os.Geteuid() == 0 {
		t.Skip("podman holds no namespaces for root")
	}
	ownStore(t)
	file := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "libpod/tmp/pause.pid")
	probe := func() {
		t.Helper()
		if _, err := New(command.Options{}).Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	probe()
	if pid := pause(file); pid != 0 {
		t.Errorf("process %d is left", pid)
	}
	if out, err := exec.Command("podman", "ps").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := pause(file)
	if before == 0 {
		t.Fatal("podman keeps no such process any more, or elsewhere")
	}
	defer unix.Kill(before, unix.SIGKILL)
	probe()
	if pid := pause(file); pid != before {
		t.Errorf("process %d became %d", before, pid)
	}
}

// TestNoProcessIsLeftWhereTMPDIRSays: podman notes it there for those who have no
// runtime directory.
func TestNoProcessIsLeftWhereTMPDIRSays(t *testing.T) {
	testkit.RequireTool(t, "podman")
	if os.Geteuid() == 0 {
		t.Skip("podman holds no namespaces for root")
	}
	ownStore(t)
	dir := filepath.Dir(os.Getenv("XDG_RUNTIME_DIR"))
	t.Setenv("HOME", dir)
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_RUNTIME_DIR", "")
	file := filepath.Join(dir, fmt.Sprintf("podman-run-%d/libpod/tmp/pause.pid", os.Getuid()))
	leavingNoPause(func() {
		if out, err := exec.Command("podman", "ps").CombinedOutput(); err != nil || pause(file) == 0 {
			t.Errorf("podman keeps no such process there any more: %v: %s", err, out)
		}
	})
	if pid := pause(file); pid != 0 {
		unix.Kill(pid, unix.SIGKILL)
		t.Errorf("process %d is left", pid)
	}
}
