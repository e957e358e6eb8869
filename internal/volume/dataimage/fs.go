package dataimage

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// entry is one name of a directory.
type entry struct {
	name  string
	inode *Inode
}

// Name and the methods after it implement fs.FileInfo and fs.DirEntry.
func (e entry) Name() string               { return e.name }
func (e entry) Size() int64                { return e.inode.Size }
func (e entry) ModTime() time.Time         { return e.inode.Modified }
func (e entry) IsDir() bool                { return e.inode.kind() == unix.S_IFDIR }
func (e entry) Sys() any                   { return e.inode }
func (e entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }
func (e entry) String() string             { return fs.FormatDirEntry(e) }

func (e entry) Mode() fs.FileMode {
	mode := fsutil.FileMode(e.inode.Mode)
	switch e.inode.kind() {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	}
	return mode
}

// maxDir bounds the size of one directory, in bytes.
const maxDir = 1 << 30

// list reads a directory, sorted: ext4/directory.rst. The blocks of its index,
// where it has one, look like empty entries.
func (i *Image) list(dir *Inode) ([]entry, error) {
	if dir.kind() != unix.S_IFDIR {
		return nil, errors.New("not a directory")
	}
	if dir.Size > maxDir {
		return nil, damaged("directory %d has %d bytes", dir.Number, dir.Size)
	}
	c, err := i.open(dir)
	if err != nil {
		return nil, err
	}
	var list []entry
	block := make([]byte, i.super.blockSize)
	for at := int64(0); at < dir.Size; at += i.super.blockSize {
		if _, err := io.ReadFull(c, block); err != nil {
			return nil, damaged("directory %d: %v", dir.Number, err)
		}
		for b := block; len(b) >= 8; {
			number, length, name := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint16(b[4:])), int(b[6])
			if length < 8 || length > len(b) || 8+name > length {
				return nil, damaged("directory %d has a broken entry", dir.Number)
			}
			text := string(b[8 : 8+name])
			b = b[length:]
			if number == 0 || text == "." || text == ".." {
				continue
			}
			if text == "" || strings.ContainsAny(text, "/\x00") {
				return nil, damaged("directory %d has an entry %q", dir.Number, text)
			}
			if dir.Number == rootInode && text == lostAndFound {
				continue // the file system's own
			}
			n, err := i.inode(int64(number))
			if err != nil {
				return nil, err
			}
			list = append(list, entry{text, n})
		}
	}
	sort.Slice(list, func(a, b int) bool { return list[a].name < list[b].name })
	return list, nil
}

const lostAndFound = "lost+found"

// find gives the file of a path, without following a link at its end or on
// the way.
func (i *Image) find(op, name string) (entry, error) {
	fail := func(err error) (entry, error) { return entry{}, &fs.PathError{Op: op, Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	n, err := i.inode(rootInode)
	if err != nil {
		return fail(err)
	}
	at := entry{".", n}
	if name == "." {
		return at, nil
	}
next:
	for element := range strings.SplitSeq(name, "/") {
		list, err := i.list(at.inode)
		if err != nil {
			return fail(fs.ErrNotExist)
		}
		for _, e := range list {
			if e.name == element {
				at = e
				continue next
			}
		}
		return fail(fs.ErrNotExist)
	}
	return at, nil
}

// Lstat implements fs.ReadLinkFS.
func (i *Image) Lstat(name string) (fs.FileInfo, error) { return i.find("lstat", name) }

// Stat implements fs.StatFS; links are not followed.
func (i *Image) Stat(name string) (fs.FileInfo, error) { return i.find("stat", name) }

// ReadDir implements fs.ReadDirFS.
func (i *Image) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := i.find("readdir", name)
	if err != nil {
		return nil, err
	}
	list, err := i.list(e.inode)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	entries := make([]fs.DirEntry, len(list))
	for k, e := range list {
		entries[k] = e
	}
	return entries, nil
}

// ReadLink implements fs.ReadLinkFS.
func (i *Image) ReadLink(name string) (string, error) {
	e, err := i.find("readlink", name)
	if err != nil {
		return "", err
	}
	return i.target(e.inode)
}

// target reads a symbolic link; a short one is in its inode.
func (i *Image) target(n *Inode) (string, error) {
	switch {
	case n.kind() != unix.S_IFLNK:
		return "", fs.ErrInvalid
	case n.Size >= unix.PathMax:
		return "", damaged("link %d has %d bytes", n.Number, n.Size)
	case !n.mapped && n.Size < int64(len(n.content)):
		return string(n.content[:n.Size]), nil
	}
	c, err := i.open(n)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(c)
	return string(raw), err
}

// Open implements fs.FS.
func (i *Image) Open(name string) (fs.File, error) {
	e, err := i.find("open", name)
	if err != nil {
		return nil, err
	}
	e.name = path.Base(name)
	f := &file{entry: e, i: i}
	switch e.inode.kind() {
	case unix.S_IFDIR:
		f.left, err = i.ReadDir(name)
	case unix.S_IFREG:
		f.content, err = i.open(e.inode)
	default:
		err = fs.ErrInvalid
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}

// file is an open file or directory.
type file struct {
	entry
	i       *Image
	content *content
	left    []fs.DirEntry
}

func (f *file) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *file) Close() error               { return nil }

func (f *file) Read(b []byte) (int, error) {
	if f.content == nil {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: errors.New("is a directory")}
	}
	if len(b) == 0 {
		return 0, nil
	}
	return f.content.Read(b)
}

func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		all := f.left
		f.left = nil
		return all, nil
	}
	if len(f.left) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.left))
	some := f.left[:n]
	f.left = f.left[n:]
	return some, nil
}
