package fsutil

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is a directory whose content others fill. All methods work below the descriptor of
// that directory, whatever is done to the tree meanwhile.
//
// Names are relative to the directory, with slashes; "." is the directory itself. In no
// method is any element of a name a link: such a name is an error (ELOOP or ENOTDIR), and
// Resolve gives the name without links of what it leads to. The last element of a name
// that is listed, renamed, removed or replaced may be a link, and means the link.
type Root struct {
	dir directory
	// Seen is the absolute path by which those who fill the tree know it, such as
	// "/work" in a container: there begin the absolute links that lead into the tree.
	// Where it is empty, every absolute link leads out.
	Seen string
}

// OpenRoot opens a directory. Its path is one that the user or BEE chose: links in it are
// followed.
func OpenRoot(dir string) (*Root, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return &Root{dir: directory{os.NewFile(uintptr(fd), dir)}}, nil
}

// Sub opens a directory of the tree as a tree of its own.
func (r *Root) Sub(name string) (*Root, error) {
	fd, err := r.dir.openat(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	sub := &Root{dir: directory{os.NewFile(uintptr(fd), r.Path(name))}}
	if r.Seen != "" {
		sub.Seen = path.Join(r.Seen, name)
	}
	return sub, nil
}

// Close releases the descriptor.
func (r *Root) Close() error { return r.dir.f.Close() }

// Real is the path at which the directory is now, whatever led to it.
func (r *Root) Real() (string, error) {
	return os.Readlink(r.Pinned())
}

const pinned = "/proc/self/fd/"

// Pinned is a path by which this process reaches the directory until Close, whatever has
// taken the place of that meanwhile.
func (r *Root) Pinned() string { return pinned + strconv.Itoa(int(r.dir.f.Fd())) }

// IsPinned reports whether a path is that of a pinned directory, or below one.
func IsPinned(path string) bool { return strings.HasPrefix(path, pinned) }

// Path is the path of a name, for messages.
func (r *Root) Path(name string) string { return r.dir.path(name) }

// Open opens a plain file for reading. It does not wait for what a FIFO would bring.
func (r *Root) Open(name string) (*os.File, error) {
	// O_NONBLOCK: the name may be that of a FIFO.
	fd, err := r.dir.openat(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // a link, a socket
		err = &fs.PathError{Op: "open", Path: r.Path(name), Err: fmt.Errorf("%w: %w", ErrNotPlain, errors.Unwrap(err))}
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), r.Path(name))
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: r.Path(name), Err: ErrNotPlain}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenPlain opens a plain file for reading that the user has named by a path, over links, and
// that may be of someone else's: a FIFO in its place would keep the process for ever.
func OpenPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotPlain}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ErrNotPlain is the cause where a link, a FIFO, a device, a socket or a directory is in
// the place of a plain file.
var ErrNotPlain = errors.New("not a plain file")

// ErrTooLarge is the cause where a file is larger than its reader takes.
var ErrTooLarge = errors.New("larger than expected")

// Spoiled reports whether an error of ReadFile is for good: there is something, and it is
// no file of the reader's.
func Spoiled(err error) bool { return errors.Is(err, ErrNotPlain) || errors.Is(err, ErrTooLarge) }

// ReadFile reads a plain file of at most limit bytes. A larger one is an error that wraps
// ErrTooLarge.
func (r *Root) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var data []byte
	if info.Size() <= limit { // it may grow meanwhile
		data, err = io.ReadAll(io.LimitReader(f, limit+1))
	}
	if err == nil && max(info.Size(), int64(len(data))) > limit {
		err = &fs.PathError{Op: "read", Path: r.Path(name), Err: fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// ReadFile reads a plain file of at most limit bytes that others wrote: name is below
// the directory dir, which the caller trusts.
func ReadFile(dir, name string, limit int64) ([]byte, error) {
	r, err := OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.ReadFile(name, limit)
}

// Create makes a plain file for writing, where nothing is yet.
func (r *Root) Create(name string, mode fs.FileMode) (*os.File, error) {
	fd, err := r.dir.openat(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, uint32(mode.Perm()))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), r.Path(name)), nil
}

// WriteFile is the function WriteFile for a name in the tree.
func (r *Root) WriteFile(name string, data []byte, mode fs.FileMode) (err error) {
	dir, base, err := r.dir.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	temp := "." + base[:min(len(base), unix.NAME_MAX-20)] + ".bee-new"
	if err := RemoveAt(dir, temp); err != nil {
		return r.dir.fail("write", name, err)
	}
	fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(mode.Perm()))
	if err != nil {
		return r.dir.fail("write", name, err)
	}
	f := os.NewFile(uintptr(fd), r.Path(name))
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = unix.Renameat(dir, temp, dir, base)
	}
	if err != nil {
		return r.dir.fail("write", name, errors.Join(err, RemoveAt(dir, temp)))
	}
	return r.dir.fail("sync directory of", name, syncFD(dir, "."))
}

// Lstat describes what is at a name.
func (r *Root) Lstat(name string) (fs.FileInfo, error) {
	fd, err := r.dir.openat(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), r.Path(name))
	defer f.Close()
	return f.Stat()
}

// Exists is the function Exists for a name in the tree.
func (r *Root) Exists(name string) (bool, error) {
	_, err := r.Lstat(name)
	return existence(r.Path(name), err)
}

// Readlink gives the text of a link.
func (r *Root) Readlink(name string) (string, error) {
	dir, base, err := r.dir.parent(name)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, base, buf)
	if err != nil {
		return "", r.dir.fail("read link", name, err)
	}
	return string(buf[:n]), nil
}

// ReadDir gives the names in a directory, in order.
func (r *Root) ReadDir(name string) ([]string, error) {
	f, err := r.OpenDir(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return sortedNames(f)
}

// Mkdir makes a directory.
func (r *Root) Mkdir(name string, mode fs.FileMode) error {
	return r.dir.at("make directory", name, func(dir int, base string) error { return unix.Mkdirat(dir, base, uint32(mode.Perm())) })
}

// MkdirAll makes a directory and those above it, as far as they are missing.
func (r *Root) MkdirAll(name string, mode fs.FileMode) error {
	name, err := r.dir.local(name)
	if err != nil || name == "." {
		return err
	}
	done := ""
	for element := range strings.SplitSeq(name, "/") {
		done = path.Join(done, element)
		if err := r.Mkdir(done, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := r.OpenDir(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// Symlink makes a link.
func (r *Root) Symlink(target, name string) error {
	return r.dir.at("make link", name, func(dir int, base string) error { return unix.Symlinkat(target, dir, base) })
}

// Rename moves what is at a name to a name in another tree, or in the same. What is there
// is replaced, as rename(2) does.
func (r *Root) Rename(from string, to *Root, name string) error {
	return r.dir.move("rename", from, to.dir, name, unix.Renameat)
}

// Link gives a file a second name, in another tree or in the same.
func (r *Root) Link(from string, to *Root, name string) error {
	return r.dir.move("link", from, to.dir, name, func(dir int, base string, at int, as string) error {
		return unix.Linkat(dir, base, at, as, 0)
	})
}

// RemoveAll removes what is at a name and everything in it, as the function RemoveAll
// does. What is gone is success.
func (r *Root) RemoveAll(name string) error {
	dir, base, err := r.dir.parent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return r.dir.fail("remove", name, RemoveAt(dir, base))
}

// Chmod sets the permissions of a file or directory, and those bits of mode that are not
// permissions as os.Chmod does.
func (r *Root) Chmod(name string, mode fs.FileMode) error {
	fd, err := r.dir.openat(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return r.dir.fail("set mode of", name, chmod(fd, unixMode(mode)))
}

// specialBits are the bits of a mode that are not permissions, as in stat(2).
var specialBits = map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID, fs.ModeSticky: unix.S_ISVTX}

// FileMode gives the permissions in the mode of stat(2), and those bits that are not
// permissions as os.Chmod takes them.
func FileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for is, bit := range specialBits {
		if mode&bit != 0 {
			m |= is
		}
	}
	return m
}

func unixMode(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	for bit, is := range specialBits {
		if mode&bit != 0 {
			m |= is
		}
	}
	return m
}
