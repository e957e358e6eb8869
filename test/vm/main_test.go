package vm

import (
	"os"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit/machines"
)

// TestMain lets the test binary hold the network of a cloud's machines.
func TestMain(m *testing.M) {
	if code, meant := machines.Main(os.Args); meant {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
