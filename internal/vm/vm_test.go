package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

// guestVariable names the guest image for processes of the test.
const guestVariable = "BEE_TEST_GUEST_TREE"

func newRuntime() driver.Runtime {
	binary := os.Getenv("BEE_TEST_BINARY")
	return New(Options{Binary: binary, Guest: os.Getenv(guestVariable), Accel: TCG, CPU: "max", Topology: qemu.Topology{Sockets: 1, Cores: 2, Threads: 1},
		Memory: 1 << 30, Disk: 4 << 30, SocketName: "node.sock"})
}

func TestMain(m *testing.M) {
	drivertest.OwnerMain(newRuntime)
	os.Exit(m.Run())
}

// guest builds the guest image, once for all tests.
func guest(t *testing.T) string {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, qemu.Program())
	b := testkit.NewBee(t)
	id := strings.TrimSpace(b.Must("vm", "build"))
	_, hex, _ := strings.Cut(id, ":")
	for _, e := range b.Env {
		if cache, ok := strings.CutPrefix(e, "BEE_CACHE="); ok {
			return filepath.Join(cache, "trees", hex)
		}
	}
	t.Fatal("the test's bee has no cache")
	return ""
}

// TestConformance boots a machine for each case, which takes its time: what
// does not depend on who runs it is tried by an ordinary user only.
func TestConformance(t *testing.T) {
	binary := testkit.Binary(t)
	t.Setenv("BEE_TEST_BINARY", binary)
	t.Setenv(guestVariable, guest(t))
	var only []string
	if os.Geteuid() == 0 {
		only = []string{"Exec", "Mounts", "Root", "KillOwner"}
	}
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return newRuntime() }, Binary: binary, AtOnce: 2, OwnKernel: true, Only: only}.Run(t)
}

func TestAccelIsFoundByTrying(t *testing.T) {
	tree := guest(t)
	keep := t.TempDir()
	accel, why, err := Accel(t.Context(), []string{qemu.Program()}, tree, testkit.Binary(t), keep)
	if err != nil || why == "" || accel != KVM && accel != TCG {
		t.Fatalf("%q (%s), %v", accel, why, err)
	}
	again, whyAgain, err := Accel(t.Context(), []string{qemu.Program()}, "", "", keep)
	if _, noDevice := os.Stat("/dev/kvm"); noDevice == nil && (err != nil || again != accel || whyAgain != why) {
		t.Errorf("the verdict was not kept: %q (%s), %v", again, whyAgain, err)
	}
}

func TestMemoryThatIsNotThere(t *testing.T) {
	if err := enoughMemory(1 << 60); err == nil || !strings.Contains(err.Error(), "MiB are free") {
		t.Errorf("an exbibyte: %v", err)
	}
	if err := enoughMemory(1); err != nil {
		t.Error(err)
	}
}
