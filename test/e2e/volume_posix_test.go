package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/hanwen/go-fuse/v2/posixtest"
)

// TestVolumeSemantics runs go-fuse's tests of POSIX file systems in a volume.
func TestVolumeSemantics(t *testing.T) {
	_, _, near := mounted(t)
	skipped := map[string]string{
		"Link":                "no hard links",
		"LinkUnlinkRename":    "no hard links",
		"FcntlFlockLocksFile": "expects two locks of one process to conflict, which POSIX rules out",
		"XAttr":               "no extended attributes",
		"XAttrLarge":          "no extended attributes",
		"LseekHoleSeeksToEOF": "holes are not reported",
		"LseekEnxioCheck":     "holes are not reported",
	}
	names := []string{}
	for name := range posixtest.All {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if why := skipped[name]; why != "" {
				t.Skip(why)
			}
			if name == "OpenSymlinkRace" && !testkit.Everything() {
				t.Skip("it takes seconds") // `make test-long` runs it
			}
			dir := filepath.Join(near, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			posixtest.All[name](t, dir)
		})
	}
}
