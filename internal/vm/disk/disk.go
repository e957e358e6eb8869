// Package disk makes disks that machines boot by their own firmware (UEFI), of the parts of a guest image and of bee.
// Such a disk has a partition for the firmware with a loader, the kernel and its initrd, one with the root file system,
// and one that the machine itself enlarges and fills. The package keeps these disks by name. It knows no cloud.
package disk

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/vm/initrd"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/uuid"
)

// Parts are those of a disk.
type Parts struct {
	// Guest is the directory of the unpacked guest image, and Binary the bee of its architecture.
	Guest, Binary string
	// Arch is the GOARCH of both.
	Arch string
}

// epoch is the time of all files of the firmware's partition: the first that FAT has, in seconds.
const epoch = 315532800

const (
	sector = 512
	unit   = 1 << 20
	// leastBoot is the size of the firmware's partition: a smaller one is no FAT32.
	leastBoot = 64 * unit
)

// sizeOf is how many bytes of a disk something has that fills whole units.
func sizeOf(n int64) int64 { return (n + unit - 1) / unit * unit }

// names are what depends on the architecture: the loader's name that each firmware looks for
// (UEFI specification, 3.5.1.1), the serial port, and an option for the kernel's clock: on a busy host, its check of the
// timer takes an emulated one for broken.
func names(arch string) (loader, console, clock string, err error) {
	switch arch {
	case "amd64":
		return "BOOTX64.EFI", "ttyS0,115200", " no_timer_check", nil
	case "arm64":
		return "BOOTAA64.EFI", "ttyAMA0", "", nil
	}
	return "", "", "", fmt.Errorf("there are no machines of %q", arch)
}

// bootFile is a file of the firmware's partition.
type bootFile struct {
	name string
	data []byte
}

// bootFiles are the files of the firmware's partition, as the Boot Loader Specification has them.
func bootFiles(p Parts) ([]bootFile, error) {
	name, console, clock, err := names(p.Arch)
	if err != nil {
		return nil, err
	}
	loader, lerr := os.ReadFile(filepath.Join(p.Guest, "loader.efi"))
	kernel, kerr := os.ReadFile(filepath.Join(p.Guest, "vmlinuz"))
	if err := errors.Join(lerr, kerr); err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := errors.Join(initrd.Write(z, filepath.Join(p.Guest, "modules"), p.Binary, api.Config{Machine: true, Hostname: "bee", User: "root", Bridge: true}), z.Close()); err != nil {
		return nil, fmt.Errorf("write the initrd: %w", err)
	}
	options := "console=tty0 console=" + console + " quiet rdinit=/" + api.BinaryPath + " panic=10 random.trust_cpu=on" + clock + " -- " + api.Command
	return []bootFile{
		{"/EFI/BOOT/" + name, loader},
		{"/vmlinuz", kernel},
		{"/initrd", packed.Bytes()},
		{"/loader/loader.conf", []byte("timeout 0\neditor no\n")},
		{"/loader/entries/bee.conf", []byte("title bee\nlinux /vmlinuz\ninitrd /initrd\noptions " + options + "\n")},
	}, nil
}

// Write writes a disk into an empty file. Equal parts give equal bytes.
func Write(f *os.File, p Parts) error {
	files, err := bootFiles(p)
	if err != nil {
		return err
	}
	root, err := os.Open(filepath.Join(p.Guest, "root.sqfs"))
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat()
	if err != nil {
		return err
	}
	content, boot := sha256.New(), int64(0)
	for _, b := range files {
		boot += int64(len(b.data))
		content.Write(b.data)
	}
	boot = max(leastBoot, sizeOf(boot+boot/16+8*unit)) // its tables have a sixty-fourth
	var places []*gpt.Partition
	at := int64(unit)
	for i, part := range []struct {
		name string
		kind gpt.Type
		size int64
	}{
		{"bee-boot", gpt.EFISystemPartition, boot}, {api.RootPartition, gpt.LinuxFilesystem, sizeOf(info.Size())}, {api.DataPartition, gpt.LinuxFilesystem, unit},
	} {
		places = append(places, &gpt.Partition{Index: i + 1, Name: part.name, Type: part.kind, Start: uint64(at / sector), End: uint64((at+part.size)/sector - 1), Size: uint64(part.size)})
		at += part.size
	}
	if err := f.Truncate(at + unit); err != nil {
		return err
	}
	if err := writeBoot(f, unit, boot, files); err != nil {
		return fmt.Errorf("write the partition of the firmware: %w", err)
	}
	if _, err := io.Copy(io.NewOffsetWriter(f, int64(places[1].Start)*sector), io.TeeReader(root, content)); err != nil {
		return fmt.Errorf("write the root file system: %w", err)
	}
	// Equal disks have equal ids, by which they are found.
	id := func(of string) string {
		return uuid.NewSHA1(uuid.NameSpaceOID, append(content.Sum(nil), of...)).String()
	}
	for _, part := range places {
		part.GUID = id(part.Name)
	}
	table := &gpt.Table{Partitions: places, LogicalSectorSize: sector, PhysicalSectorSize: sector, GUID: id("disk"), ProtectiveMBR: true}
	return table.Write(f, at+unit)
}

// fatSize returns the size of a file system for a partition of a size. The library's tables lack an entry or two for some
// sizes, which mtools and checks of file systems refuse: a few sectors less, and they have all.
func fatSize(partition int64) int64 {
	const reserved, wide = 32, 260 * unit
	perCluster := int64(1)
	if partition > wide {
		perCluster = 8
	}
	for sectors := partition / sector; ; sectors-- {
		each := sector*perCluster + 8
		table := (4*(sectors-reserved) + each - 1) / each
		if clusters := (sectors - reserved - 2*table) / perCluster; table*sector/4 >= clusters+2 {
			return sectors * sector
		}
	}
}

// writeBoot writes a FAT file system into a part of a file.
func writeBoot(f *os.File, at, size int64, files []bootFile) error {
	// The library has the time of files from this variable alone.
	const variable = "SOURCE_DATE_EPOCH"
	before, was := os.LookupEnv(variable)
	if err := os.Setenv(variable, strconv.Itoa(epoch)); err != nil {
		return err
	}
	defer func() {
		core.BestEffort(os.Unsetenv(variable)) // no name that the system could refuse
		if was {
			core.BestEffort(os.Setenv(variable, before))
		}
	}()
	to, err := fat32.Create(file.New(f, false), fatSize(size), at, sector, "BEE", true)
	if err != nil {
		return err
	}
	for _, dir := range []string{"/EFI/BOOT", "/loader/entries"} {
		if err := to.Mkdir(dir); err != nil {
			return err
		}
	}
	for _, b := range files {
		out, err := to.OpenFile(b.name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			return err
		}
		n, err := out.Write(b.data)
		if err == nil && n < len(b.data) {
			err = io.ErrShortWrite
		}
		if err := cmp.Or(err, out.Close()); err != nil {
			return fmt.Errorf("write %s: %w", b.name, err)
		}
	}
	return nil
}
