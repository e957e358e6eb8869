// Package remote holds the places that a burst buffer is drained to: directories and buckets.
// A name there always has one whole version of a file: versions are sent first, and take
// their place at once. What another program has changed is never replaced.
//
// The package knows nothing of buffers, journals and mounts.
package remote

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Remote is a place that a burst buffer is drained to. Every change may be made again after a
// crash, with the same arguments: what was done is then found, and is success. seq is the
// number of such a change, and ino that of a file.
type Remote interface {
	// Stat describes what is at a name; "." is the top directory.
	Stat(name string) (Entry, error)
	// List describes what is in a directory, without what is hidden.
	List(dir string) ([]Entry, error)
	// Glance is List without what takes a request of its own: of such entries only name and version are known, and
	// their Kind is 0. The error is ErrLarge where there are more than most.
	Glance(dir string, most int) ([]Entry, error)
	// Open opens a file for reading.
	Open(name string) (Source, error)
	// Known is Open for a file whose version was seen lately, without a look at it; nil: Open has to look.
	Known(name string, v Version) Source
	// Check reports whether the remote can have a name, as an errno.
	Check(name string) error
	// Space is how many bytes the remote has, and how many of them are free.
	Space() (total, free int64, err error)
	// Traits are in what kinds of remotes differ.
	Traits() Traits

	// Ensure makes a directory that is to get something, with those above it, where it needs one.
	Ensure(dir string) error
	// Write sends a version of a file, so that it may take its place by Publish. It returns by
	// which word Publish finds the version, and how it will look.
	Write(ctx context.Context, name string, ino uint64, c Content) (partial string, v Version, err error)
	// Discard removes what Write has sent for a file and nobody will publish.
	Discard(name string, ino uint64) error
	// Publish gives a name the version ours, which Write has sent, where the version expect is
	// now. The error is ErrForeign where another one is, and fs.ErrNotExist where what was sent
	// is no longer there.
	Publish(partial, name string, ours, expect Version) (Version, error)
	// Remove removes a file or link if its version is expect: ErrForeign where it is another
	// one. What is gone is success.
	Remove(name string, ino uint64, expect Version) error
	// Move moves a file or link of the version ours to another name, in the place of the version
	// expect: ErrForeign where another one is there. A remote that can only compare first returns
	// fs.ErrClosed where another version is at the old name; others move that.
	Move(from, to string, seq uint64, ours, expect Version) (Version, error)
	// MoveDir moves a directory of the version ours; over: to the place of an empty one. The
	// error is ErrForeign where something else is there. It returns the new versions of what is
	// in the directory, where moving has changed them.
	MoveDir(from, to string, seq uint64, ours Version, over bool) (map[string]Version, error)
	// Moving is whether MoveDir has begun to move objects by that change, and has not ended.
	Moving(seq uint64) bool
	// Mkdir makes a directory. One that is there is success.
	Mkdir(name string, mode uint32) error
	// Rmdir removes an empty directory: ErrForeign where another program has put something into
	// it. What is gone is success.
	Rmdir(name string) error
	// Symlink makes a link. The same one is success.
	Symlink(target, name string) error
	// SetAttr sets permissions and time of what has the version ours: ErrForeign where it is
	// another one.
	SetAttr(name string, seq uint64, ours Version, mode uint32, mtime int64) (Version, error)

	// Keep keeps the version ours of a file at another name, too, in the place of what is there:
	// ErrForeign where it is another version.
	Keep(from, to string, ours Version) error

	// Record reads the record of the volume that uses the remote, SetRecord makes it where there
	// is none, ReplaceRecord replaces the record old by another one, and RemoveRecord removes it.
	// The error is fs.ErrExist where another record is there. RecordPath names it in messages.
	Record() ([]byte, error)
	SetRecord(raw []byte) error
	ReplaceRecord(old, raw []byte) error
	RemoveRecord() error
	RecordPath() string

	// Stop ends whatever waits for the remote; Close releases it.
	Stop()
	Close() error
}

// Source is a file of a remote that is being read.
type Source interface {
	// Version is that of the file when it was opened.
	Version() Version
	// Now is the version that the file has now, whatever is at its name.
	Now() (Version, error)
	// Read fills p from an offset, with fewer bytes at the end. The error is fs.ErrClosed where
	// that version is gone.
	Read(ctx context.Context, p []byte, off int64) (int, error)
	// Close ends the reading.
	Close() error
}

// Traits are in what kinds of remotes differ.
type Traits struct {
	// Keeps is whether a file that is open can be read after its name is gone.
	Keeps bool
	// Moves is whether a directory is moved at once.
	Moves bool
	// Fresh is how long attributes count.
	Fresh time.Duration
}

// Content is a version of a file that is to be sent.
type Content struct {
	Seq   uint64 // of the change
	Size  int64
	Mode  uint32
	Mtime int64
	// Data calls put for all that is not a hole, in order.
	Data func(put func(off int64, data []byte) error) error
	// At fills p from an offset, with zeros for holes.
	At func(p []byte, off int64) error
}

// ErrAway is a cause of errors that pass once the remote answers again.
var ErrAway = errors.New("the remote is away")

// Away returns an error that passes once the remote, or the credentials for it, are back.
func Away(err error) error { return away{err} }

type away struct{ error }

// Is matches no cause but the end of the process: a program or a socket that is missing on the way is no
// answer of the remote, of which a file is missing then.
func (a away) Is(target error) bool {
	return target == ErrAway || target == context.Canceled && errors.Is(a.error, target)
}

// As finds kind and remedy of the cause.
func (a away) As(target any) bool { return errors.As(a.error, target) }

// ErrForeign is the cause where another program has changed what is at a name.
var ErrForeign = errors.New("another program has changed it")

// ErrLarge is the cause where a directory has more names than are wanted.
var ErrLarge = errors.New("the directory has too many names")

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
	Mtime int64  `json:"m"`           // nanoseconds since 1970
	Tag   string `json:"t,omitempty"` // of an object, in place of Ino and Mtime
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
	Loose    bool   // Mtime is not kept when something in it changes
	Target   string // of a link
	Version  Version
}

// Directory is what is hidden in a remote: its top directory has records of BEE.
const Directory = ".bee"

// RecordName is the name of the record of the volume that uses a remote.
const RecordName = Directory + "/volume.json"

// Generations is the directory of the checkpoints of a run.
const Generations = Directory + "/generations"

const partialPrefix = ".bee-partial-"

// MostName is the longest name of a file, in bytes.
const MostName = 255

// Plain reports whether a file can have a name.
func Plain(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= MostName && !strings.ContainsAny(name, "/\x00")
}

// CheckPath reports as ENAMETOOLONG a path below a directory that no call of the kernel accepts. Names
// of conflicts and of what is sent need some of its length.
func CheckPath(name string) error {
	if len(name) > syscall.PathMax-2*MostName {
		return syscall.ENAMETOOLONG
	}
	return nil
}

// Hidden reports whether a name belongs to BEE and is no file of the user's; top is
// whether it is in the top directory.
func Hidden(name string, top bool) bool {
	return strings.HasPrefix(name, partialPrefix) || top && name == Directory
}

// HiddenIn reports whether a name in a directory belongs to BEE: in its own directory, none is hidden.
func HiddenIn(dir, name string) bool {
	return Hidden(name, dir == ".") && dir != Directory && !strings.HasPrefix(dir, Directory+"/")
}

// mostConflicts is how many names are tried for what conflicts.
const mostConflicts = 1000

// Beside stores what must not replace another version beside a name: at the first name of
// conflicts at which store does not return ErrForeign.
func Beside(name, volume string, store func(name string) error) error {
	err := error(ErrForeign)
	for i := 1; i <= mostConflicts && errors.Is(err, ErrForeign); i++ {
		of := volume
		if i > 1 {
			of += "-" + strconv.Itoa(i)
		}
		err = store(Conflict(name, of))
	}
	return err
}

// Conflict is the name beside which a version is stored that must not replace another.
func Conflict(name, volume string) string {
	suffix := ".bee-conflict-" + volume
	return strings.ToValidUTF8(name[:min(len(name), MostName-len(suffix))], "") + suffix
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
