// Package erofs turns a tar stream into an EROFS file system image, which a
// kernel mounts read-only as it is: nothing is unpacked, loaded or hashed
// where it is used. The layout is that of the kernel's
// Documentation/filesystems/erofs.rst and fs/erofs/erofs_fs.h, of which plain,
// uncompressed inodes are enough. It knows no images and no mounts.
package erofs

import (
	"archive/tar"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"strings"
)

const (
	blockSize = 4096
	slotSize  = 32 // of the table of inodes, in which a number counts
	inodeSize = 64

	superOffset = 1024
	superMagic  = 0xE0F5E1E2
)

// Bits of the file mode.
const (
	modeFIFO    = 0o010000
	modeChar    = 0o020000
	modeDir     = 0o040000
	modeBlock   = 0o060000
	modeRegular = 0o100000
	modeLink    = 0o120000
)

// node is a file of the tree.
type node struct {
	mode       uint16
	uid, gid   uint32
	mtime      int64
	nanosecond uint32
	links      uint32
	size       uint64
	start      uint32 // block of the data, or the device's number
	xattrs     []byte
	children   map[string]*node
	parent     *node
	inode      uint32
	nid        uint64
}

func (n *node) isDir() bool { return n.mode&0o170000 == modeDir }

// writer writes blocks one after the other: data first, as it comes, then what
// describes it.
type writer struct {
	out   *bufio.Writer
	block uint32 // the next to be written
}

// Write makes an image of a tar stream, in a file that is empty. Hard links
// must come after what they link to, as tar has it.
func Write(f *os.File, in io.Reader) error {
	w := &writer{out: bufio.NewWriterSize(f, 1<<20), block: 1}
	if _, err := w.out.Write(make([]byte, blockSize)); err != nil { // the super block's place
		return err
	}
	root := newDir(0o755)
	root.parent = root
	if err := w.read(root, tar.NewReader(in)); err != nil {
		return err
	}
	meta, count, err := w.describe(root)
	if err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	if _, err := f.WriteAt(super(root, meta, w.block, count), superOffset); err != nil {
		return err
	}
	return nil
}

func newDir(mode uint16) *node {
	return &node{mode: modeDir | mode, links: 2, children: map[string]*node{}}
}

// read takes all members of the stream in.
func (w *writer) read(root *node, r *tar.Reader) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.member(root, h, r); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

func (w *writer) member(root *node, h *tar.Header, r io.Reader) error {
	name := path.Clean("/" + h.Name)
	if name == "/" {
		if h.Typeflag == tar.TypeDir {
			return root.take(h)
		}
		return errors.New("the root is no directory")
	}
	dir, err := root.walk(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	if h.Typeflag == tar.TypeLink {
		target, err := root.find(path.Clean("/" + h.Linkname))
		if err != nil {
			return err
		}
		if target.isDir() {
			return errors.New("a hard link to a directory")
		}
		target.links++
		dir.children[base] = target
		return nil
	}
	n := &node{links: 1}
	if old := dir.children[base]; old != nil && old.isDir() && h.Typeflag == tar.TypeDir {
		n = old
	}
	if err := n.take(h); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if n.children == nil {
			n.children, n.parent, n.links = map[string]*node{}, dir, 2
			dir.links++
		}
	case tar.TypeReg:
		err = w.data(n, io.LimitReader(r, h.Size), h.Size)
	case tar.TypeSymlink:
		err = w.data(n, strings.NewReader(h.Linkname), int64(len(h.Linkname)))
	}
	dir.children[base] = n
	return err
}

// take sets what a header says.
func (n *node) take(h *tar.Header) error {
	kind := uint16(0)
	switch h.Typeflag {
	case tar.TypeDir:
		kind = modeDir
	case tar.TypeReg:
		kind = modeRegular
	case tar.TypeSymlink:
		kind = modeLink
	case tar.TypeFifo:
		kind = modeFIFO
	case tar.TypeChar:
		kind = modeChar
	case tar.TypeBlock:
		kind = modeBlock
	default:
		return fmt.Errorf("members of type %q are not known", h.Typeflag)
	}
	n.mode = kind | uint16(h.Mode&0o7777)
	n.uid, n.gid = uint32(h.Uid), uint32(h.Gid)
	n.mtime, n.nanosecond = h.ModTime.Unix(), uint32(h.ModTime.Nanosecond())
	if kind == modeChar || kind == modeBlock { // as the kernel's new_encode_dev
		n.start = uint32(h.Devminor&0xff) | uint32(h.Devmajor&0xfff)<<8 | uint32(h.Devminor&^0xff)<<12
	}
	var err error
	n.xattrs, err = encodeXattrs(h.PAXRecords)
	return err
}

// walk gives a directory, made where a stream does not name it.
func (n *node) walk(dir string) (*node, error) {
	for _, part := range strings.Split(strings.Trim(dir, "/"), "/") {
		if part == "" {
			continue
		}
		child := n.children[part]
		if child == nil {
			child = newDir(0o755)
			child.parent = n
			n.links++
			n.children[part] = child
		}
		if !child.isDir() {
			return nil, errors.New("it lies below what is no directory")
		}
		n = child
	}
	return n, nil
}

func (n *node) find(name string) (*node, error) {
	dir, base := path.Split(name)
	d, err := n.walk(dir)
	if err != nil {
		return nil, err
	}
	if found := d.children[base]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("it links to %s, which is not there", name)
}

// data writes a file's contents.
func (w *writer) data(n *node, r io.Reader, size int64) error {
	n.size = uint64(size)
	if size == 0 {
		return nil
	}
	n.start = w.block
	copied, err := io.Copy(w.out, r)
	if err != nil {
		return err
	}
	if copied != size {
		return io.ErrUnexpectedEOF
	}
	return w.fill(size)
}

// fill pads what was written to whole blocks.
func (w *writer) fill(size int64) error {
	blocks := (size + blockSize - 1) / blockSize
	if int64(w.block)+blocks > 1<<32-1 {
		return errors.New("the image is too large")
	}
	w.block += uint32(blocks)
	_, err := w.out.Write(make([]byte, blocks*blockSize-size))
	return err
}

// describe numbers all files, and writes the directories and the inodes.
func (w *writer) describe(root *node) (meta uint32, count uint64, err error) {
	all := number(root)
	for _, n := range all {
		if n.isDir() {
			raw := n.entries()
			n.start, n.size = w.block, uint64(len(raw))
			if _, err := w.out.Write(raw); err != nil {
				return 0, 0, err
			}
			if err := w.fill(int64(len(raw))); err != nil {
				return 0, 0, err
			}
		}
	}
	meta = w.block
	at := uint64(0)
	for _, n := range all {
		if _, err := w.out.Write(make([]byte, n.nid*slotSize-at)); err != nil {
			return 0, 0, err
		}
		raw := n.encode()
		if _, err := w.out.Write(raw); err != nil {
			return 0, 0, err
		}
		at = n.nid*slotSize + uint64(len(raw))
	}
	return meta, uint64(len(all)), w.fill(int64(at))
}

// number gives every file its place among the inodes, the root first. Nothing
// of an inode crosses a block.
func number(root *node) []*node {
	var all []*node
	at := uint64(2 * slotSize) // number 0 means no file to many programs
	var visit func(n *node)
	visit = func(n *node) {
		if n.inode != 0 { // a further name
			return
		}
		size := uint64(inodeSize + len(n.xattrs))
		if left := blockSize - at%blockSize; left < size && size <= blockSize || left < inodeSize {
			at += left
		}
		all = append(all, n)
		n.inode, n.nid = uint32(len(all)), at/slotSize
		at = (at + size + slotSize - 1) / slotSize * slotSize
		for _, name := range n.names() {
			visit(n.children[name])
		}
	}
	visit(root)
	return all
}

func (n *node) names() []string {
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// entries are a directory's blocks: in each the entries, twelve bytes, then
// their names, all in the order of names, for the kernel searches by halves.
func (n *node) entries() []byte {
	names := append(n.names(), ".", "..")
	sort.Strings(names)
	var out []byte
	for len(names) > 0 {
		count, size := 0, 0
		for count < len(names) && size+entrySize+len(names[count]) <= blockSize {
			size += entrySize + len(names[count])
			count++
		}
		block := make([]byte, 0, blockSize)
		offset := count * entrySize
		for _, name := range names[:count] {
			child := n.children[name]
			switch name {
			case ".":
				child = n
			case "..":
				child = n.parent
			}
			block = binary.LittleEndian.AppendUint64(block, child.nid)
			block = binary.LittleEndian.AppendUint16(block, uint16(offset))
			block = append(block, child.kind(), 0)
			offset += len(name)
		}
		for _, name := range names[:count] {
			block = append(block, name...)
		}
		names = names[count:]
		if len(names) > 0 {
			block = block[:blockSize]
		}
		out = append(out, block...)
	}
	return out
}

const entrySize = 12

// kind is the type in a directory's entry.
func (n *node) kind() byte {
	switch n.mode & 0o170000 {
	case modeRegular:
		return 1
	case modeDir:
		return 2
	case modeChar:
		return 3
	case modeBlock:
		return 4
	case modeFIFO:
		return 5
	case modeLink:
		return 7
	}
	return 0
}

// encode is an extended inode, its data in blocks of their own.
func (n *node) encode() []byte {
	const extended = 1
	b := make([]byte, 0, inodeSize+len(n.xattrs))
	b = binary.LittleEndian.AppendUint16(b, extended)
	b = binary.LittleEndian.AppendUint16(b, xattrCount(n.xattrs))
	b = binary.LittleEndian.AppendUint16(b, n.mode)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint64(b, n.size)
	b = binary.LittleEndian.AppendUint32(b, n.start)
	b = binary.LittleEndian.AppendUint32(b, n.inode)
	b = binary.LittleEndian.AppendUint32(b, n.uid)
	b = binary.LittleEndian.AppendUint32(b, n.gid)
	b = binary.LittleEndian.AppendUint64(b, uint64(n.mtime))
	b = binary.LittleEndian.AppendUint32(b, n.nanosecond)
	b = binary.LittleEndian.AppendUint32(b, n.links)
	b = append(b, make([]byte, 16)...)
	return append(b, n.xattrs...)
}

// super is the super block.
func super(root *node, meta, blocks uint32, inodes uint64) []byte {
	b := make([]byte, 0, 128)
	b = binary.LittleEndian.AppendUint32(b, superMagic)
	b = binary.LittleEndian.AppendUint32(b, 0) // no checksum
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, 12, 0) // a block's bits
	b = binary.LittleEndian.AppendUint16(b, uint16(root.nid))
	b = binary.LittleEndian.AppendUint64(b, inodes)
	b = binary.LittleEndian.AppendUint64(b, uint64(root.mtime))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, blocks)
	b = binary.LittleEndian.AppendUint32(b, meta)
	b = binary.LittleEndian.AppendUint32(b, 0) // no shared attributes
	return append(b, make([]byte, 128-len(b))...)
}
