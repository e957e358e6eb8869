package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"
)

// Types of inodes. Those with more fields are longer by more.
const (
	typeDirectory = iota + 1
	typeFile
	typeSymlink
	typeBlock
	typeChar
	typeFIFO
	typeSocket

	more = typeSocket
)

const (
	longestTarget = 64 << 10
	noFragment    = math.MaxUint32
	dotEntries    = 3 // what the size of a directory counts for "." and ".."
)

// inode is what the file system says of a file.
type inode struct {
	at       uint64 // its reference
	mode     fs.FileMode
	uid, gid uint16
	modified time.Time
	links    uint32
	size     uint64 // of a plain file, or of a directory's list
	target   string

	start    uint64 // of a file's data, or of the block of a directory's list
	offset   uint32 // in that block, or in the fragment block
	fragment uint32
	blocks   *cursor // at the sizes of a file's blocks
}

// inode reads an inode by its reference: a block in the table, and an offset in it.
func (s *FS) inode(ref uint64) (inode, error) {
	n := inode{at: ref, links: 1}
	c, err := s.cursor(s.inodes, ref>>16, uint16(ref))
	if err != nil {
		return n, err
	}
	var b [40]byte
	if err := c.read(b[:16]); err != nil {
		return n, err
	}
	le := binary.LittleEndian
	kind := le.Uint16(b[:])
	n.mode = fs.FileMode(le.Uint16(b[2:])) & fs.ModePerm
	n.uid, n.gid, n.modified = le.Uint16(b[4:]), le.Uint16(b[6:]), time.Unix(int64(le.Uint32(b[8:])), 0)
	switch kind {
	case typeDirectory:
		err = c.read(b[:16])
		n.start, n.size, n.offset = uint64(le.Uint32(b[:])), uint64(le.Uint16(b[8:])), uint32(le.Uint16(b[10:]))
		n.mode |= fs.ModeDir
	case typeDirectory + more:
		err = c.read(b[:24])
		n.size, n.start, n.offset = uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])), uint32(le.Uint16(b[18:]))
		n.mode |= fs.ModeDir
	case typeFile:
		err = c.read(b[:16])
		n.start, n.fragment, n.offset, n.size = uint64(le.Uint32(b[:])), le.Uint32(b[4:]), le.Uint32(b[8:]), uint64(le.Uint32(b[12:]))
		n.blocks = c
	case typeFile + more:
		err = c.read(b[:40])
		n.start, n.size, n.links = le.Uint64(b[:]), le.Uint64(b[8:]), le.Uint32(b[24:])
		n.fragment, n.offset, n.blocks = le.Uint32(b[28:]), le.Uint32(b[32:]), c
	case typeSymlink, typeSymlink + more:
		n.mode |= fs.ModeSymlink
		n.target, err = readTarget(c)
	case typeBlock, typeBlock + more:
		n.mode |= fs.ModeDevice
	case typeChar, typeChar + more:
		n.mode |= fs.ModeDevice | fs.ModeCharDevice
	case typeFIFO, typeFIFO + more:
		n.mode |= fs.ModeNamedPipe
	case typeSocket, typeSocket + more:
		n.mode |= fs.ModeSocket
	default:
		return n, fmt.Errorf("it has type %d", kind)
	}
	if n.size > math.MaxInt64/2 {
		return n, fmt.Errorf("it has %d bytes", n.size)
	}
	return n, err
}

func readTarget(c *cursor) (string, error) {
	var b [8]byte
	if err := c.read(b[:]); err != nil {
		return "", err
	}
	size := binary.LittleEndian.Uint32(b[4:])
	if size == 0 || size > longestTarget {
		return "", fmt.Errorf("it is a link of %d bytes", size)
	}
	target := make([]byte, size)
	err := c.read(target)
	return string(target), err
}

// listing reads the names of a directory: groups of names whose inodes are in one block.
type listing struct {
	cursor *cursor
	left   uint64 // bytes
	group  int    // names left in the group
	block  uint64 // of the group's inodes
}

func (s *FS) list(dir inode) (*listing, error) {
	if dir.size <= dotEntries {
		return &listing{}, nil
	}
	c, err := s.cursor(s.names, dir.start, uint16(dir.offset))
	return &listing{cursor: c, left: dir.size - dotEntries}, err
}

func (l *listing) read(b []byte) error {
	if uint64(len(b)) > l.left {
		return errors.New("it ends within a name")
	}
	l.left -= uint64(len(b))
	return l.cursor.read(b)
}

// next reads a name and the reference of its inode; io.EOF is the end.
func (l *listing) next() (name string, ref uint64, err error) {
	var b [12]byte
	le := binary.LittleEndian
	if l.group == 0 {
		if l.left == 0 {
			return "", 0, io.EOF
		}
		if err := l.read(b[:12]); err != nil {
			return "", 0, err
		}
		count := le.Uint32(b[:])
		if count > 255 {
			return "", 0, fmt.Errorf("it has a group of %d names", count)
		}
		l.group, l.block = int(count)+1, uint64(le.Uint32(b[4:]))
	}
	l.group--
	if err := l.read(b[:8]); err != nil {
		return "", 0, err
	}
	size := int(le.Uint16(b[6:])) + 1
	if size > 256 {
		return "", 0, fmt.Errorf("it has a name of %d bytes", size)
	}
	text := make([]byte, size)
	err = l.read(text)
	return string(text), l.block<<16 | uint64(le.Uint16(b[:])), err
}
