// Package squashfs reads SquashFS 4.0 file systems, as mksquashfs writes them with gzip, lzo,
// xz, lz4 or zstd. The layout is that of the kernel's fs/squashfs/squashfs_fs.h. A file
// system is hostile until its end: memory is bounded whatever it names. The package knows
// no images.
package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// Bounds of a file system.
const (
	mostFiles   = 5_000_000
	deepestPath = 500
	longestPath = 4096      // as Linux opens
	mostLinked  = 256 << 20 // bytes of names to which hard links may lead
	mostCached  = 32 << 20  // bytes of fragment blocks that are kept
)

// Bounds of a block.
const (
	smallestBlock = 4 << 10
	largestBlock  = 1 << 20
)

// FS is a file system.
type FS struct {
	part       io.ReaderAt
	end        uint64 // of the part
	block      int
	fragments  uint32
	ids        uint16
	root       uint64
	inodes     uint64 // where its tables begin
	names      uint64
	idTable    uint64
	fragTable  uint64
	decompress decompressor
	meta       cache // blocks of metadata
	data       cache // blocks of fragments
	packed     []byte
	plain      []byte
}

// Open reads what the beginning of a part of size bytes says of the file system in it.
func Open(part io.ReaderAt, size int64) (*FS, error) {
	var b [96]byte
	if _, err := part.ReadAt(b[:], 0); err != nil {
		return nil, fmt.Errorf("read its file system: %w", err)
	}
	le := binary.LittleEndian
	s := &FS{
		part: part, end: uint64(size), fragments: le.Uint32(b[16:]), ids: le.Uint16(b[26:]), root: le.Uint64(b[32:]),
		idTable: le.Uint64(b[48:]), inodes: le.Uint64(b[64:]), names: le.Uint64(b[72:]), fragTable: le.Uint64(b[80:]),
	}
	files, block := le.Uint32(b[4:]), le.Uint32(b[12:])
	switch {
	case string(b[:4]) != "hsqs":
		return nil, errors.New("its file system is no SquashFS")
	case le.Uint16(b[28:]) != 4 || le.Uint16(b[30:]) != 0:
		return nil, fmt.Errorf("its file system is SquashFS %d.%d, not 4.0", le.Uint16(b[28:]), le.Uint16(b[30:]))
	case files == 0 || files > mostFiles || s.fragments > files:
		return nil, fmt.Errorf("its file system names %d files and %d fragments", files, s.fragments)
	case block < smallestBlock || block > largestBlock || block&(block-1) != 0:
		return nil, fmt.Errorf("its file system has blocks of %d bytes", block)
	}
	s.block = int(block)
	s.meta.most, s.data.most = 64, max(1, mostCached/s.block)
	s.packed, s.plain = make([]byte, s.block), make([]byte, s.block)
	var err error
	s.decompress, err = newDecompressor(le.Uint16(b[20:]))
	return s, err
}

// File is a file of a tree, as Walk meets it.
type File struct {
	Path     string // from the root, without a slash at its beginning
	Mode     fs.FileMode
	UID, GID uint32
	Modified time.Time
	Size     int64  // of a plain file
	Target   string // of a symbolic link
	Link     string // the path of the same file that came before, or ""

	inode inode
}

// Walk calls visit for each file below the root, directories before what they contain.
func (s *FS) Walk(visit func(f *File) error) error {
	w := &walk{fs: s, visit: visit, seen: map[uint64]bool{}, first: map[uint64]string{}}
	root, err := s.inode(s.root)
	if err == nil && !root.mode.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return fmt.Errorf("read its root: %w", err)
	}
	return w.directory(root, "", 0)
}

type walk struct {
	fs     *FS
	visit  func(f *File) error
	files  int
	seen   map[uint64]bool   // directories
	first  map[uint64]string // names of files with several names
	linked int               // bytes of these names
}

func (w *walk) directory(dir inode, at string, depth int) error {
	if w.seen[dir.at] {
		return fmt.Errorf("directory %q is in the tree twice", at)
	}
	w.seen[dir.at] = true
	if depth > deepestPath {
		return errors.New("its directories nest too deep")
	}
	list, err := w.fs.list(dir)
	if err != nil {
		return fmt.Errorf("read directory %q: %w", at, err)
	}
	for {
		name, ref, err := list.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read directory %q: %w", at, err)
		}
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("a file in %q is called %q", at, name)
		}
		if w.files++; w.files > mostFiles {
			return fmt.Errorf("it has more than %d files", mostFiles)
		}
		if err := w.file(path.Join(at, name), ref, depth); err != nil {
			return err
		}
	}
}

func (w *walk) file(at string, ref uint64, depth int) error {
	if len(at) > longestPath {
		return fmt.Errorf("a path in it has %d bytes", len(at))
	}
	n, err := w.fs.inode(ref)
	if err != nil {
		return fmt.Errorf("read %q: %w", at, err)
	}
	f := &File{Path: at, Mode: n.mode, Modified: n.modified, Target: n.target, inode: n}
	if f.UID, err = w.fs.id(n.uid); err == nil {
		f.GID, err = w.fs.id(n.gid)
	}
	if err != nil {
		return fmt.Errorf("read %q: %w", at, err)
	}
	if f.Mode.IsRegular() {
		f.Size, f.Link = int64(n.size), w.first[n.at]
		if n.links > 1 && f.Link == "" {
			if w.linked += len(at); w.linked > mostLinked {
				return errors.New("too many of its files have several names")
			}
			w.first[n.at] = at
		}
	}
	if err := w.visit(f); err != nil {
		return fmt.Errorf("read %q: %w", at, err)
	}
	if f.Mode.IsDir() {
		return w.directory(n, at, depth+1)
	}
	return nil
}
