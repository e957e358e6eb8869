package rootless_test

import (
	"os"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/runtime/rootless"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestMain(m *testing.M) {
	drivertest.OwnerMain(func() driver.Runtime {
		if os.Getenv("BEE_TEST_OWNER_NATIVE") != "" {
			return rootless.Native(rootless.Options{Binary: os.Getenv("BEE_TEST_OWNER_BINARY")})
		}
		return rootless.New(rootless.Options{Binary: os.Getenv("BEE_TEST_OWNER_BINARY")})
	})
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	binary := testkit.Binary(t)
	t.Setenv("BEE_TEST_OWNER_BINARY", binary)
	for _, upper := range []rootless.Upper{"", rootless.FuseOverlay, rootless.Copy} {
		t.Run("upper "+string(upper), func(t *testing.T) {
			s := drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime {
				if os.Getenv("BEE_TEST_OWNER_NATIVE") != "" {
					return rootless.Native(rootless.Options{Binary: os.Getenv("BEE_TEST_OWNER_BINARY")})
				}
				return rootless.New(rootless.Options{Binary: binary, Upper: upper})
			}, Binary: binary, AtOnce: 16, Inherits: true, Scratch: upper != rootless.Copy, Memory: drivertest.LimitsMemory(t)}
			if upper == rootless.FuseOverlay {
				testkit.RequireTool(t, "fuse-overlayfs")
				fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
				if err != nil {
					t.Skip(err)
				}
				fuse.Close()
				// What the root's file system is of makes no difference to the others.
				s.Only = []string{"Exec", "Identity", "Apart", "Mounts", "Scratch", "Confined", "Orphans", "Stop", "AtOnce", "Root", "KillOwner"}
			}
			s.Run(t)
		})
	}
}

// TestManyAskAtOnce is as when many nodes are one process, which share one runtime.
func TestManyAskAtOnce(t *testing.T) {
	rt := rootless.New(rootless.Options{Binary: testkit.Binary(t)})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if facts, err := rt.Probe(t.Context()); err != nil || !facts.Usable {
				t.Errorf("%+v, %v", facts, err)
			}
		})
	}
	all.Wait()
}
