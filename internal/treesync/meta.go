package treesync

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Kinds of entries.
const (
	kindDir     = 'd'
	kindFile    = 'f'
	kindSymlink = 'l'
	kindHard    = 'h'
	kindFifo    = 'p'
	kindSocket  = 's'
)

// meta is everything about a file but its content.
type meta struct {
	kind   byte
	name   string // one path element; ignored for a top
	mode   uint32 // permission bits, 07777
	mtime  int64  // nanoseconds since 1970
	size   int64  // of a file, as seen before its content was read
	link   uint64 // of a file with several names: its number; of a hard link: the number it stands for
	target string // of a symbolic link
	xattrs []xattr
	st     *unix.Stat_t // of a file that is read; not sent
}

type xattr struct{ name, value string }

// Limits of what a receiver believes; Linux's own are not larger.
const (
	maxTarget = unix.PathMax
	maxXattrs = 1024
)

func (m *meta) append(b []byte) []byte {
	b = append(b, m.kind)
	b = appendString(b, m.name)
	b = binary.AppendUvarint(b, uint64(m.mode))
	b = binary.AppendVarint(b, m.mtime)
	b = binary.AppendUvarint(b, uint64(m.size))
	b = binary.AppendUvarint(b, m.link)
	b = appendString(b, m.target)
	b = binary.AppendUvarint(b, uint64(len(m.xattrs)))
	for _, x := range m.xattrs {
		b = appendString(b, x.name)
		b = appendString(b, x.value)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// fields reads what append wrote; after an error it gives zero values.
type fields struct {
	b   []byte
	err error
}

var errRecord = errors.New("malformed record")

func (f *fields) uint() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.b, f.err = nil, errRecord
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) int() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.b, f.err = nil, errRecord
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) string() string {
	n := f.uint()
	if n > uint64(len(f.b)) {
		f.b, f.err = nil, errRecord
		return ""
	}
	s := string(f.b[:n])
	f.b = f.b[n:]
	return s
}

// parseMeta reads an entry and checks everything that the tree relies on.
func parseMeta(b []byte) (*meta, error) {
	if len(b) == 0 {
		return nil, errRecord
	}
	f := &fields{b: b[1:]}
	m := &meta{kind: b[0], name: f.string(), mode: uint32(f.uint()) & 0o7777, mtime: f.int(), size: int64(f.uint()), link: f.uint(), target: f.string()}
	n := f.uint()
	if f.err != nil || n > maxXattrs || m.size < 0 || len(m.target) > maxTarget || strings.ContainsRune(m.target, 0) {
		return nil, errRecord
	}
	for range n {
		x := xattr{f.string(), f.string()}
		if !strings.HasPrefix(x.name, "user.") || strings.ContainsRune(x.name, 0) {
			return nil, errRecord
		}
		m.xattrs = append(m.xattrs, x)
	}
	if f.err != nil || len(f.b) != 0 {
		return nil, errRecord
	}
	return m, nil
}

// checkName refuses a name that is not one plain path element.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > unix.NAME_MAX || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("unsafe file name %q in stream", name)
	}
	return nil
}
