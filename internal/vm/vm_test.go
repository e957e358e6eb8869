package vm

import (
	"os"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

func newRuntime() driver.Runtime {
	return New(Options{Guest: os.Getenv("BEE_TEST_GUEST"), Accel: "tcg", CPU: "max", Topology: qemu.Topology{Sockets: 1, Cores: 2, Threads: 1},
		Memory: 1 << 30, Disk: 4 << 30, SocketName: "node.sock", Told: func(m string) { os.Stderr.WriteString(m + "\n") }})
}

func TestMain(m *testing.M) {
	drivertest.OwnerMain(newRuntime)
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	binary := testkit.Binary(t)
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return newRuntime() }, Binary: binary, AtOnce: 1}.Run(t)
}
