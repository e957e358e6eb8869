// Package remote holds the places that a burst buffer is drained to: so far directories.
// A name there always has one whole version of a file: versions are written beside the
// name, and take its place at once. What another program has changed is never replaced.
//
// The package knows nothing of buffers, journals and mounts.
package remote

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// ErrForeign is the cause where another program has changed what is at a name.
var ErrForeign = errors.New("somebody else has changed it")

// Kind is what is at a name.
type Kind uint8

// Kinds.
const (
	File Kind = iota + 1
	Dir
	Link
	Other // a FIFO, a socket, a device: listed, never touched
)

// Version identifies what is at a name: who replaces or writes it gives it another one.
// The zero value is that of nothing.
type Version struct {
	Ino   uint64 `json:"i"`
	Size  int64  `json:"s"`
	Mtime int64  `json:"m"` // nanoseconds since 1970
}

// None reports whether there is nothing.
func (v Version) None() bool { return v == Version{} }

// Entry describes what is at a name.
type Entry struct {
	Name     string
	Kind     Kind
	Mode     uint32 // permissions, with the set-id and sticky bits
	UID, GID uint32
	Mtime    int64  // nanoseconds since 1970
	Target   string // of a link
	Version  Version
}

// Directory is what is hidden in a remote: its top directory has records of BEE.
const Directory = ".bee"

const partialPrefix = ".bee-partial-"

// Hidden reports whether a name belongs to BEE and is no file of the user's; top is
// whether it is in the top directory.
func Hidden(name string, top bool) bool {
	return strings.HasPrefix(name, partialPrefix) || top && name == Directory
}

// Conflict is the name beside which a version is stored that must not replace another.
func Conflict(name, volume string) string {
	suffix := ".bee-conflict-" + volume
	return name[:min(len(name), 255-len(suffix))] + suffix
}

func describe(name string, info fs.FileInfo) (Entry, error) {
	st, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return Entry{}, &fs.PathError{Op: "stat", Path: name, Err: syscall.EIO}
	}
	e := Entry{Name: name, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Mtime: st.Mtim.Nano(), Version: Version{Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()}}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		e.Kind = File
	case syscall.S_IFDIR:
		e.Kind = Dir
		e.Version.Size, e.Version.Mtime = 0, 0 // what is in it has versions of its own
	case syscall.S_IFLNK:
		e.Kind = Link
	default:
		e.Kind = Other
	}
	return e, nil
}
