// Package dataimage holds a volume in one file: a disk image with an ext4 file
// system, which a virtual machine attaches and which travels like any file. It
// makes such an image of a directory, looks into it and empties it, without
// root and without a machine. It reads ext4 itself; making one, and setting
// right what a crash left, is e2fsprogs' work. It knows nothing of runs.
package dataimage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Image is an image that is open for reading. It is an fs.FS with symbolic
// links (fs.ReadLinkFS); what FileInfo.Sys gives is a *Inode.
type Image struct {
	file  *os.File
	super super
	// groups are where each group's inodes begin, as block numbers.
	groups []int64
}

// super is what matters of the superblock: the kernel's
// Documentation/filesystems/ext4/super.rst.
type super struct {
	blockSize, blocks, free  int64
	inodes, inodesPerGroup   int64
	inodeSize, blocksInGroup int64
	firstBlock, descriptor   int64
	incompatible             uint32
}

// Features without which an image cannot be read: those that mke2fs gives ours,
// and dirtyJournal.
const (
	fileTypes    = 0x2
	dirtyJournal = 0x4
	extents      = 0x40
	wide         = 0x80
	flexGroups   = 0x200
	checksumSeed = 0x2000
	largeDirs    = 0x4000
	known        = fileTypes | dirtyJournal | extents | wide | flexGroups | checksumSeed | largeDirs
)

const (
	superOffset = 1024
	superSize   = 1024
	magic       = 0xef53
	maxGroups   = 1 << 22
)

// ErrUnclean reports an image that was in use when its machine ended: Recover
// sets it right.
var ErrUnclean = errors.New("it was in use when its machine ended, and its journal holds what is newest")

// Open opens an image. The error is ErrUnclean where its journal has to be
// carried out first.
func Open(file string) (*Image, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO's other end may never come
	if err != nil {
		return nil, fileError("open data image", file, err)
	}
	i := &Image{file: f}
	if err := i.readSuper(); err != nil {
		f.Close()
		return nil, &core.Error{Kind: core.Invalid, Op: "open data image", Object: file, Err: err, Remedy: remedyFor(err)}
	}
	return i, nil
}

func remedyFor(err error) string {
	if errors.Is(err, ErrUnclean) {
		return "`bee data ls` and `bee data unload` set it right first, by e2fsck (Debian: e2fsprogs), if they may write to it."
	}
	return "Is it an image that `bee data load` made?"
}

func fileError(op, object string, err error) error {
	kind, remedy := core.Permanent, ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind, remedy = core.NotFound, "Check the path."
	case errors.Is(err, fs.ErrPermission):
		remedy = "Name one that you may read and write."
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &core.Error{Kind: kind, Op: op, Object: object, Err: err, Remedy: remedy}
}

// Close closes the image's file.
func (i *Image) Close() error { return i.file.Close() }

// Size and Free are bytes: of the whole, and not used yet as far as the file
// system has written it down (when it is unmounted or frozen).
func (i *Image) Size() int64 { return i.super.blocks * i.super.blockSize }

// Free: see Size.
func (i *Image) Free() int64 { return i.super.free * i.super.blockSize }

func (i *Image) readSuper() error {
	b := make([]byte, superSize)
	if info, err := i.file.Stat(); err == nil && info.IsDir() {
		return errors.New("it is a directory")
	}
	if _, err := i.file.ReadAt(b, superOffset); err != nil {
		return errors.New("it is too small to hold a file system")
	}
	u16 := func(at int) int64 { return int64(binary.LittleEndian.Uint16(b[at:])) }
	u32 := func(at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
	if u16(0x38) != magic {
		return errors.New("it holds no ext4 file system")
	}
	if u32(0x18) > 6 {
		return errors.New("its blocks have no size that can be")
	}
	s := super{
		blockSize: 1024 << u32(0x18), blocks: u32(0x4), free: u32(0xc), firstBlock: u32(0x14), blocksInGroup: u32(0x20),
		inodes: u32(0), inodesPerGroup: u32(0x28), inodeSize: u16(0x58), descriptor: 32, incompatible: uint32(u32(0x60)),
	}
	if s.incompatible&wide != 0 {
		s.blocks |= u32(0x150) << 32
		s.free |= u32(0x158) << 32
		s.descriptor = u16(0xfe)
	}
	switch {
	case s.incompatible&^uint32(known) != 0:
		return fmt.Errorf("its file system has features (%#x) that are unknown here", s.incompatible&^uint32(known))
	case s.incompatible&dirtyJournal != 0:
		return ErrUnclean
	case s.inodeSize < 128 || s.inodeSize > s.blockSize || s.inodesPerGroup < 1 || s.blocksInGroup < 1 || s.descriptor < 32 || s.descriptor > 1024 || s.blocks < 1:
		return errors.New("its superblock is damaged")
	}
	if info, err := i.file.Stat(); err != nil || info.Size() < s.blocks*s.blockSize {
		return errors.New("the file is shorter than its file system: it was cut off on its way")
	}
	i.super = s
	return i.readGroups()
}

func (i *Image) readGroups() error {
	s := i.super
	count := (s.blocks - s.firstBlock + s.blocksInGroup - 1) / s.blocksInGroup
	if count < 1 || count > maxGroups {
		return errors.New("its superblock is damaged")
	}
	raw := make([]byte, count*s.descriptor)
	if _, err := i.file.ReadAt(raw, (s.firstBlock+1)*s.blockSize); err != nil {
		return fmt.Errorf("read group descriptors: %w", err)
	}
	for d := raw; len(d) > 0; d = d[s.descriptor:] {
		table := int64(binary.LittleEndian.Uint32(d[0x8:]))
		if s.descriptor >= 64 {
			table |= int64(binary.LittleEndian.Uint32(d[0x28:])) << 32
		}
		i.groups = append(i.groups, table)
	}
	return nil
}

// damaged reports what cannot be in a whole file system.
func damaged(format string, args ...any) error {
	return &core.Error{
		Kind: core.Permanent, Op: "read data image", Err: fmt.Errorf("its file system is damaged: "+format, args...),
		Remedy: "`e2fsck -fn IMAGE` tells more. Use an earlier copy of it, if there is one.",
	}
}

// full reports whether an error is for want of space.
func full(text string) bool {
	return strings.Contains(text, "Could not allocate") || strings.Contains(text, syscall.ENOSPC.Error()) || strings.Contains(text, "too small") || strings.Contains(text, "too big")
}
