package image

import (
	"os"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestWhatABuildMountsEndsWithIt: mmdebstrap mounts as root, and may be killed.
func TestWhatABuildMountsEndsWithIt(t *testing.T) {
	testkit.RequireRoot(t)
	dir := t.TempDir()
	c := tethered(t.Context(), []string{"/bin/sh", "-c", `mount -t tmpfs none "$0" && grep -q "$0" /proc/self/mountinfo && kill -9 $$`, dir})
	_, err := runTethered(c, func() error { return nil })
	if err == nil || err.Error() != "signal: killed" {
		t.Fatalf("it ended: %v", err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("%v, mounted: %s", err, mounts)
	}
}
