package dataimage

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Inode is a file of an image, as FileInfo.Sys gives it.
type Inode struct {
	// Number is unique in the image; files with several names share it.
	Number int64
	// Mode is as in stat(2), Links the number of names.
	Mode     uint32
	Links    int
	UID, GID uint32
	Size     int64 // bytes
	Modified time.Time
	mapped   bool     // its content is found by extents
	content  [60]byte // the root of its extents, or a short symbolic link
}

// rootInode is the number of the top directory.
const rootInode = 2

// inode reads an inode: ext4/inodes.rst.
func (i *Image) inode(number int64) (*Inode, error) {
	s := i.super
	if number < 1 || number > s.inodes || (number-1)/s.inodesPerGroup >= int64(len(i.groups)) {
		return nil, damaged("there is no inode %d", number)
	}
	at := i.groups[(number-1)/s.inodesPerGroup]*s.blockSize + (number-1)%s.inodesPerGroup*s.inodeSize
	b := make([]byte, s.inodeSize)
	if _, err := i.file.ReadAt(b, at); err != nil {
		return nil, damaged("inode %d: %v", number, err)
	}
	u16 := func(at int) uint32 { return uint32(binary.LittleEndian.Uint16(b[at:])) }
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	n := &Inode{
		Number: number, Mode: u16(0), Links: int(u16(0x1a)), UID: u16(0x2) | u16(0x78)<<16, GID: u16(0x18) | u16(0x7a)<<16,
		Size: int64(u32(0x4)) | int64(u32(0x6c))<<32, mapped: u32(0x20)&0x80000 != 0,
	}
	copy(n.content[:], b[0x28:])
	seconds, nanoseconds := int64(int32(u32(0x10))), int64(0)
	if s.inodeSize >= 0x8c && u16(0x80) >= 0x0c {
		extra := u32(0x88)
		seconds += int64(extra&3) << 32
		nanoseconds = int64(extra >> 2)
	}
	n.Modified = time.Unix(seconds, nanoseconds)
	if n.Links == 0 || n.Size < 0 {
		return nil, damaged("inode %d is not in use", number)
	}
	return n, nil
}

func (n *Inode) kind() uint32 { return n.Mode & unix.S_IFMT }

// extent is a stretch of a file that is in one piece: bytes. What no extent
// covers is a hole.
type extent struct{ from, length, at int64 }

const (
	extentMagic = 0xf30a
	maxDepth    = 5
	// unwritten is added to the length of an extent that reads as zeros.
	unwritten = 1 << 15
)

// extents gives where a file's content lies, in order: ext4/ifork.rst.
func (i *Image) extents(n *Inode) ([]extent, error) {
	if !n.mapped {
		return nil, damaged("inode %d has no extents", n.Number)
	}
	var list []extent
	err := i.extentsIn(n, n.content[:], maxDepth, &list)
	return list, err
}

func (i *Image) extentsIn(n *Inode, node []byte, deepest int, list *[]extent) error {
	bs := i.super.blockSize
	entries, depth := int(binary.LittleEndian.Uint16(node[2:])), int(binary.LittleEndian.Uint16(node[6:]))
	if binary.LittleEndian.Uint16(node) != extentMagic || depth > deepest || 12*(entries+1) > len(node) {
		return damaged("inode %d has a broken extent tree", n.Number)
	}
	for e := range entries {
		b := node[12*(e+1):]
		if depth > 0 {
			child := int64(binary.LittleEndian.Uint32(b[4:])) | int64(binary.LittleEndian.Uint16(b[8:]))<<32
			block, err := i.block(n, child)
			if err != nil {
				return err
			}
			if err := i.extentsIn(n, block, depth-1, list); err != nil {
				return err
			}
			continue
		}
		length := int64(binary.LittleEndian.Uint16(b[4:]))
		if length > unwritten {
			continue
		}
		x := extent{
			from: int64(binary.LittleEndian.Uint32(b)) * bs, length: length * bs,
			at: (int64(binary.LittleEndian.Uint32(b[8:])) | int64(binary.LittleEndian.Uint16(b[6:]))<<32) * bs,
		}
		if x.at+x.length > i.Size() || x.at < bs {
			return damaged("inode %d lies outside the image", n.Number)
		}
		if k := len(*list); k > 0 && (*list)[k-1].from+(*list)[k-1].length > x.from {
			return damaged("inode %d has extents out of order", n.Number)
		}
		*list = append(*list, x)
	}
	return nil
}

func (i *Image) block(n *Inode, number int64) ([]byte, error) {
	if number < 1 || number >= i.super.blocks {
		return nil, damaged("inode %d points outside the image", n.Number)
	}
	b := make([]byte, i.super.blockSize)
	_, err := i.file.ReadAt(b, number*i.super.blockSize)
	return b, err
}

// content reads a file, holes as zeros.
type content struct {
	in      io.ReaderAt // at whose places its extents are
	extents []extent    // those not behind us
	at, end int64
}

func (i *Image) open(n *Inode) (*content, error) {
	list, err := i.extents(n)
	return &content{in: i.file, extents: list, end: n.Size}, err
}

// withContent has use read that of a file of this host.
func withContent(root *fsutil.Root, name string, use func(*content) error) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := contentOf(f)
	if err != nil {
		return err
	}
	return use(c)
}

func contentOf(f *os.File) (*content, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	c := &content{in: f, end: info.Size()}
	for at := int64(0); at < c.end; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		to := from
		if err == nil {
			to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		}
		if err != nil {
			return nil, &fs.PathError{Op: "find holes of", Path: f.Name(), Err: err}
		}
		c.extents = append(c.extents, extent{from: from, length: to - from, at: from})
		at = to
	}
	return c, nil
}

// hole is how many bytes come next that are in no extent.
func (c *content) hole() int64 {
	for len(c.extents) > 0 && c.extents[0].from+c.extents[0].length <= c.at {
		c.extents = c.extents[1:]
	}
	if len(c.extents) == 0 || c.extents[0].from > c.end {
		return c.end - c.at
	}
	return max(0, c.extents[0].from-c.at)
}

func (c *content) Read(b []byte) (int, error) {
	if c.at >= c.end {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), c.end-c.at)]
	if hole := c.hole(); hole > 0 {
		b = b[:min(int64(len(b)), hole)]
		clear(b)
	} else {
		x := c.extents[0]
		b = b[:min(int64(len(b)), x.from+x.length-c.at)]
		if _, err := io.ReadFull(io.NewSectionReader(c.in, x.at+c.at-x.from, int64(len(b))), b); err != nil {
			return 0, err
		}
	}
	c.at += int64(len(b))
	return len(b), nil
}
