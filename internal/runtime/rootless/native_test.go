package rootless_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/runtime/rootless"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestNative runs the cases that do not ask for isolation, of which it has none.
func TestNative(t *testing.T) {
	testkit.RequireRoot(t)
	binary := testkit.Binary(t)
	drivertest.RuntimeSuite{
		New: func(testing.TB) driver.Runtime {
			return rootless.Native(rootless.Options{Binary: binary})
		},
		Binary: binary, SharedUTS: true, Inherits: true, Memory: drivertest.LimitsMemory(t),
		Only: []string{"Exec", "Inherited", "Codes", "Signals", "Terminal", "Limits", "SharedMemory", "Orphans", "Use", "BigOutput", "Apart", "Probe", "Mounts", "Paths", "Cores", "Memory", "Stop", "AtOnce"},
	}.Run(t)
}

// TestNativeLoader runs the cases that ask neither for isolation nor for a container's paths.
func TestNativeLoader(t *testing.T) {
	testkit.RequireUser(t)
	binary := testkit.Binary(t)
	t.Setenv("BEE_TEST_OWNER_BINARY", binary)
	t.Setenv("BEE_TEST_OWNER_NATIVE", "1")
	drivertest.RuntimeSuite{
		New: func(testing.TB) driver.Runtime {
			return rootless.Native(rootless.Options{Binary: binary})
		},
		Binary: binary, SharedUTS: true, Inherits: true, Memory: drivertest.LimitsMemory(t),
		Only: []string{"Codes", "Signals", "Terminal", "Limits", "SharedMemory", "Orphans", "Use", "BigOutput", "Probe", "Cores", "Memory", "Stop", "KillOwner"},
	}.Run(t)
}

// TestNativeLoaderOfAnOrdinaryUser starts programs of the tree with a volume.
func TestNativeLoaderOfAnOrdinaryUser(t *testing.T) {
	testkit.RequireUser(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"state", "run", "work", "tree", "tree/bin", "tree/etc"} {
		if err := os.Mkdir(at(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(testkit.RequireTool(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"tree/bin/sh": 0o755, "tree/bin/cat": 0o755} {
		if err := os.WriteFile(at(name), raw, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("tree/etc/here"), []byte("image\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := driver.ContainerSpec{
		Owner: core.Owner{Run: "r"}, Name: "loader", Image: driver.LocalImage{Tree: at("tree")}, Env: []string{"PATH=/bin"},
		StateDir: at("state"), RunDir: at("run"), Binary: testkit.Binary(t), Mounts: []driver.Mount{{Source: at("work"), Target: "/work"}},
	}
	rt := rootless.Native(rootless.Options{Binary: spec.Binary})
	box, err := rt.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Stop(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
	})
	exec := func(args ...string) (core.Exit, error) {
		p, err := box.Exec(t.Context(), driver.Command{Args: args, Env: []string{"PATH=/bin", "FILE=/work/out"}, Dir: "/work"})
		if err != nil {
			return core.Exit{}, err
		}
		return p.Wait(t.Context())
	}
	if exit, err := exec("/bin/sh", "-c", "echo $FILE > out; cat ../tree/etc/here >> out; exit 3"); err != nil || exit.Code != 3 {
		t.Errorf("%+v, %v", exit, err)
	}
	if text, err := os.ReadFile(at("work/out")); err != nil || string(text) != at("work/out")+"\nimage\n" {
		t.Errorf("the volume has %q, %v", text, err)
	}
	for _, script := range []string{"cat /work/out", "cat </etc/here"} {
		_, err := exec("sh", "-c", script)
		if e, is := errors.AsType[*core.Error](err); !is || e.Kind != core.Unsupported || e.Remedy == "" {
			t.Errorf("%s: %v, expected that its path is refused", script, err)
		}
	}
	spec.StateDir = t.TempDir()
	spec.Mounts = append(spec.Mounts, driver.Mount{Source: at("tree"), Target: "/work/below"})
	if _, err := rt.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "/work") {
		t.Errorf("a mount within a mount: %v", err)
	}
}
