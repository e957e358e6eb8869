package rootless_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/rootless"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestLinksInAnImageOpenNothing: the host's kernel is shielded from its root in the
// container also where the image has links in the places of /proc and /sys.
func TestLinksInAnImageOpenNothing(t *testing.T) {
	testkit.AsRootToo(t)
	tree := busyboxTree(t)
	for link, to := range map[string]string{"proc": "/other/proc", "sys": "/other/sys"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(tree, to), 0o755), os.Symlink(to, filepath.Join(tree, link))); err != nil {
			t.Fatal(err)
		}
	}
	box := startTree(t, tree)
	for script, want := range map[string]int{
		"cat /proc/sys/kernel/core_pattern": 0, ": >> /proc/sys/kernel/core_pattern": 1, ": >> /proc/sysrq-trigger": 1, ": >> /sys/kernel/mm/ksm/run": 1,
	} {
		if code := shell(t, box, script); (code != 0) != (want != 0) {
			t.Errorf("%s: ended with %d", script, code)
		}
	}
}

// TestFIFOsInAnImage: nobody writes into those in the places of files that a start reads and writes.
func TestFIFOsInAnImage(t *testing.T) {
	tree, file := busyboxTree(t), filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.Mkdir(filepath.Join(tree, "etc"), 0o755), os.WriteFile(file, []byte("mounted\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/passwd", "etc/group", "etc/hosts", "file"} {
		if err := unix.Mkfifo(filepath.Join(tree, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	box := startTree(t, tree, driver.Mount{Source: file, Target: "/file"})
	for _, script := range []string{"grep :/bin/sh /etc/passwd", "grep :x: /etc/group", "grep localhost /etc/hosts", "grep mounted /file"} {
		if code := shell(t, box, script); code != 0 {
			t.Errorf("%s: ended with %d", script, code)
		}
	}
}

// busyboxTree is an image with busybox alone.
func busyboxTree(t *testing.T) string {
	t.Helper()
	busybox, err := os.ReadFile(testkit.RequireTool(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(tree, "bin"), 0o755), core.WriteProgram(filepath.Join(tree, "bin/busybox"), busybox, 0o755)); err != nil {
		t.Fatal(err)
	}
	return tree
}

// startTree starts a container of an image until the test ends.
func startTree(t *testing.T, tree string, mounts ...driver.Mount) driver.Container {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"state", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	box, err := rootless.New(rootless.Options{Binary: testkit.Binary(t)}).Start(ctx, driver.ContainerSpec{
		Owner: core.Owner{User: "shield", Run: "shield", Attempt: 1}, Name: "bee-shield", Image: driver.LocalImage{Tree: tree}, Mounts: mounts,
		StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), Binary: testkit.Binary(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { core.BestEffort(box.Stop(context.Background(), time.Second)) })
	return box
}

// shell runs a script in a container, and returns its exit code.
func shell(t *testing.T, box driver.Container, script string) int {
	t.Helper()
	p, err := box.Exec(t.Context(), driver.Command{Args: []string{"/bin/busybox", "sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return exit.Code
}
