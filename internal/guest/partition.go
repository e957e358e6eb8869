package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"golang.org/x/sys/unix"
)

// awaitPartition returns the directory in /sys of the partition with a name, on a disk by its directory there; "": on
// whichever disk.
func awaitPartition(disk, name string) (string, error) {
	for begun := time.Now(); time.Since(begun) < diskTimeout; time.Sleep(2 * time.Millisecond) { // its driver probes it beside us
		if at, err := findPartition("/sys/class/block", disk, name); at != "" || err != nil {
			return at, err
		}
	}
	return "", fmt.Errorf("no disk has a partition %s", name)
}

// findPartition looks for a partition among block devices, whose links are in a directory; "": it is not there. Two of a
// name are refused: which one the machine has booted cannot be known.
func findPartition(block, disk, name string) (string, error) {
	files, _ := filepath.Glob(filepath.Join(block, "*", "uevent"))
	found := ""
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		if !slices.Contains(strings.Split(string(raw), "\n"), "PARTNAME="+name) {
			continue
		}
		at, err := filepath.EvalSymlinks(filepath.Dir(f))
		if err != nil || disk != "" && filepath.Dir(at) != disk {
			continue // it is gone again, or another disk's
		}
		if found != "" {
			return "", fmt.Errorf("both %s and %s are partitions %s: detach the disk that the machine has not booted", deviceOf(found), deviceOf(at), name)
		}
		found = at
	}
	return found, nil
}

// deviceOf is the device file of a disk or a partition by its directory in /sys.
func deviceOf(sys string) string { return "/dev/" + filepath.Base(sys) }

// enlarge has the partition with a name, the last of a disk, reach the disk's end. No partition of the disk is in use.
func enlarge(disk, name string) error {
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	changed, err := enlargeIn(f, size, name)
	if err != nil || !changed {
		return err
	}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) { // the kernel may be looking at it still
		err := unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Since(begun) > 10*time.Second {
			return err
		}
	}
}

const sectorSize = 512

// enlargeIn changes the partition table of a disk of a size, and reports whether it had to.
func enlargeIn(f *os.File, size int64, name string) (bool, error) {
	table, err := gpt.Read(file.New(f, false), sectorSize, sectorSize)
	if err != nil {
		return false, fmt.Errorf("read the partition table: %w", err)
	}
	if len(table.Partitions) == 0 {
		return false, errors.New("the partition table is empty")
	}
	last := table.Partitions[len(table.Partitions)-1]
	if last.Name != name {
		return false, fmt.Errorf("the last partition is %q, expected %q", last.Name, name)
	}
	if err := table.Repair(uint64(size)); err != nil {
		return false, err
	}
	const unit = 1 << 20 / sectorSize
	end := (table.LastDataSector()+1)/unit*unit - 1
	if end <= last.End {
		return false, nil
	}
	last.End, last.Size = end, (end-last.Start+1)*sectorSize
	table.ProtectiveMBR = true // its size is another one now
	return true, errors.Join(table.Write(f, size), f.Sync())
}
