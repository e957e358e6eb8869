package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

// TestNothingComesFromAHaltedGuest: nobody waits for one that was brought up and
// never continues, as another machine of its run could not be.
func TestNothingComesFromAHaltedGuest(t *testing.T) {
	m := &movable{container: &container{}, halted: true, met: make(chan struct{})}
	if err := m.Get(t.Context(), "/data", []string{"*"}, t.TempDir()); !core.IsKind(err, core.NotFound) || core.Remedy(err) != core.RemedyShow {
		t.Errorf("it says %v", err)
	}
}

// TestAFunctionOfACardIsNotSaved: a guest that has one is refused where it would be.
func TestAFunctionOfACardIsNotSaved(t *testing.T) {
	r := New(Options{Guest: t.TempDir(), PCI: "0000:81:00.1", Peers: &driver.Peers{}})
	s := driver.ContainerSpec{Name: "guest", StateDir: "/s", RunDir: "/r", Binary: "/b", Image: driver.LocalImage{FileSystem: "/f"}}
	if _, err := r.Start(t.Context(), s); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("got %v (%s)", err, core.Remedy(err))
	}
}

// TestASavedMachineHasItsPartOfTheVolume, or does not come up: with another, its kernel
// would write to what it does not know.
func TestASavedMachineHasItsPartOfTheVolume(t *testing.T) {
	mounted, held := []driver.Mount{{Source: api.VolumePath}}, []driver.Mount{{Source: api.HeldDir + "/0"}}
	kinds := []struct {
		now   *Volume
		saved record
	}{
		{nil, record{Mounts: held, Disks: []savedDisk{{Serial: api.ScratchDisk}}}},
		{&Volume{Image: "volume.img"}, record{Mounts: mounted, Disks: []savedDisk{{Serial: api.ScratchDisk}, {Serial: api.DataDisk}}}},
		{&Volume{Server: "10.77.0.1"}, record{Mounts: mounted, Disks: []savedDisk{{Serial: api.ScratchDisk}}}},
	}
	for i, now := range kinds {
		for j, then := range kinds {
			if got := now.now.was(then.saved); got != (i == j) {
				t.Errorf("%+v for %+v: %v", now.now, then.saved, got)
			}
		}
	}
}

// TestAVolumeNeedsItsRoom: a host that a volume could fill is none for it.
func TestAVolumeNeedsItsRoom(t *testing.T) {
	v := &Volume{Image: filepath.Join(t.TempDir(), "volume.img")}
	if err := os.WriteFile(v.Image, []byte("a file system"), 0o600); err != nil {
		t.Fatal(err)
	}
	var host unix.Statfs_t
	if err := unix.Statfs(v.Image, &host); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]bool{1 << 20: true, int64(host.Blocks)*host.Bsize + 1<<30: false} {
		if err := os.Truncate(v.Image, size); err != nil {
			t.Fatal(err)
		}
		if err := v.room(); (err == nil) != want || err != nil && (core.KindOf(err) != core.Unsupported || !strings.Contains(core.Remedy(err), "scratch:")) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
