package rootless_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/rootless"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestLinksInAnImageOpenNothing: the host's kernel is shielded from its root in the
// container also where the image has links in the places of /proc and /sys.
func TestLinksInAnImageOpenNothing(t *testing.T) {
	testkit.AsRootToo(t)
	busybox, err := os.ReadFile(testkit.RequireTool(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	tree, dir := t.TempDir(), t.TempDir()
	err = errors.Join(os.Mkdir(filepath.Join(tree, "bin"), 0o755), os.WriteFile(filepath.Join(tree, "bin/busybox"), busybox, 0o755))
	for link, to := range map[string]string{"proc": "/other/proc", "sys": "/other/sys"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(tree, to), 0o755), os.Symlink(to, filepath.Join(tree, link)))
	}
	for _, d := range []string{"state", "run"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	box, err := rootless.New(rootless.Options{Binary: testkit.Binary(t)}).Start(t.Context(), driver.ContainerSpec{
		Owner: core.Owner{User: "shield", Run: "shield", Attempt: 1}, Name: "bee-shield", Image: driver.LocalImage{Tree: tree},
		StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), Binary: testkit.Binary(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Stop(t.Context(), time.Second) //nolint:errcheck // idempotent
	for script, want := range map[string]int{
		"cat /proc/sys/kernel/core_pattern": 0, ": >> /proc/sys/kernel/core_pattern": 1, ": >> /proc/sysrq-trigger": 1, ": >> /sys/kernel/mm/ksm/run": 1,
	} {
		p, err := box.Exec(t.Context(), driver.Command{Args: []string{"/bin/busybox", "sh", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := p.Wait(t.Context()); err != nil || (exit.Code != 0) != (want != 0) {
			t.Errorf("%s: ended with %d, %v", script, exit.Code, err)
		}
	}
}
