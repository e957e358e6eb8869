package verbs

import (
	"bytes"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestNothingIsPrinted: the library prints nothing on standard error, in programs without verbs
// and in one with the device.
func TestNothingIsPrinted(t *testing.T) {
	h := newHost(t)
	for _, args := range [][]string{{testkit.RequireTool(t, "true")}, {testkit.RequireTool(t, "ibv_devinfo"), "-v"}, {testkit.RequireTool(t, "ibv_devices")}} {
		c, _ := h.command(t.Context(), 0, args...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if err := c.Run(); err != nil || stderr.Len() > 0 {
			t.Errorf("%q: %v\non standard error:\n%s", args, err, &stderr)
		}
	}
}
