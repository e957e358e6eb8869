package guest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
)

// TestEnlarge: the last partition reaches the end of a disk that is larger than the image, once, and no other changes.
func TestEnlarge(t *testing.T) {
	const unit = 1 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := &gpt.Table{LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize, ProtectiveMBR: true, Partitions: []*gpt.Partition{
		{Index: 1, Name: api.RootPartition, Type: gpt.LinuxFilesystem, Start: 2048, End: 4095, Size: unit},
		{Index: 2, Name: api.DataPartition, Type: gpt.LinuxFilesystem, Start: 4096, End: 6143, Size: unit},
	}}
	if err := f.Truncate(4 * unit); err != nil {
		t.Fatal(err)
	}
	if err := table.Write(f, 4*unit); err != nil {
		t.Fatal(err)
	}
	if changed, err := enlargeIn(f, 4*unit, api.DataPartition); err != nil || changed {
		t.Errorf("on a disk of its size: %v, %v", changed, err)
	}
	if err := f.Truncate(100 * unit); err != nil {
		t.Fatal(err)
	}
	if _, err := enlargeIn(f, 100*unit, api.RootPartition); err == nil {
		t.Error("a partition was enlarged that is not the last")
	}
	for n, want := range []bool{true, false} {
		if changed, err := enlargeIn(f, 100*unit, api.DataPartition); err != nil || changed != want {
			t.Errorf("time %d: %v, %v", n+1, changed, err)
		}
	}
	got, err := gpt.Read(file.New(f, false), sectorSize, sectorSize)
	if err != nil || got.RecoveredFromBackup || !got.ProtectiveMBR {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := got.Verify(file.New(f, false), 100*unit); err != nil {
		t.Error(err)
	}
	for i, end := range []uint64{4095, 99*2048 - 1} {
		if p := got.Partitions[i]; p.End != end || p.GUID != table.Partitions[i].GUID {
			t.Errorf("partition %d: %+v, expected its end at %d", i+1, p, end)
		}
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := enlargeIn(f, 0, api.DataPartition); err == nil {
		t.Error("a disk without a partition table was changed")
	}
}

// TestFindPartition: the data are on the disk with the root, whatever other disks have, and a machine with two roots does
// not boot from one by chance.
func TestFindPartition(t *testing.T) {
	dir := t.TempDir()
	block := filepath.Join(dir, "class", "block")
	if err := os.MkdirAll(block, 0o755); err != nil {
		t.Fatal(err)
	}
	add := func(disk, part, name string) {
		t.Helper()
		at := filepath.Join(dir, "devices", disk, part)
		err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "uevent"), []byte("DEVTYPE=partition\nPARTN=2\nPARTNAME="+name+"\n"), 0o600),
			os.Symlink(filepath.Join("..", "..", "devices", disk, part), filepath.Join(block, part)))
		if err != nil {
			t.Fatal(err)
		}
	}
	find := func(disk, name, want string) {
		t.Helper()
		if got, err := findPartition(block, disk, name); err != nil || filepath.Base(got) != want && got != want {
			t.Errorf("%s of %q is %q, expected %q, %v", name, disk, got, want, err)
		}
	}
	find("", api.RootPartition, "")
	add("vda", "vda3", api.DataPartition) // attached
	add("vdb", "vdb2", api.RootPartition)
	find("", api.RootPartition, "vdb2")
	own := filepath.Join(dir, "devices", "vdb")
	find(own, api.DataPartition, "")
	add("vdb", "vdb3", api.DataPartition)
	find(own, api.DataPartition, "vdb3")
	add("vdc", "vdc2", api.RootPartition)
	if at, err := findPartition(block, "", api.RootPartition); err == nil {
		t.Errorf("of two roots it is %s", at)
	}
}
