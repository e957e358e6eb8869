package treesync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// sink is given what a walker finds: a stream's encoder, or a tree.
type sink interface {
	top(rel string) error
	enter(m *meta) error
	leave() error
	file(ctx context.Context, m *meta, f *file) error
	other(m *meta) error
}

type inode struct{ dev, ino uint64 }

// walker reads files and directories, always by the descriptor of the
// directory above, so that a rename or a link meanwhile leads it nowhere else.
type walker struct {
	ctx    context.Context
	to     sink
	inodes map[inode]uint64 // files with several names, by number
	root   os.FileInfo      // of the first directory that was read; nil: there was none
	first  uint32           // the kind of the last entry that a stream began with, as S_IFMT has it
	// fleeting means that what is to be read may be gone when its turn comes.
	fleeting bool
	// same reports of a file of a directory whether nothing has to be made of it, as it
	// is at the other end; nil: none is.
	same func(dir int, path string, st *unix.Stat_t) (bool, error)
}

// whole is one that fails where a directory was removed, or replaced, meanwhile: of what
// was in it then, some may be missing.
//
// A path below one of fsutil's Root.Pinned is that of a file or directory that others may
// replace, and a link in its place is an error.
func (k *walker) whole(path string) error {
	if err := k.one(path, ""); err != nil {
		return err
	}
	if k.root == nil {
		if fsutil.IsPinned(path) && k.first == unix.S_IFLNK {
			return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it was replaced meanwhile: %w", unix.ELOOP)}
		}
		return nil
	}
	after, err := identity(path)
	if err == nil && !os.SameFile(k.root, after) {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it was replaced meanwhile: %w", fs.ErrNotExist)}
	}
	return err
}

// identity describes the directory that a path leads to now.
func identity(path string) (fs.FileInfo, error) {
	r, err := fsutil.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Lstat(".")
}

func (k *walker) one(path, rel string) error {
	dir, err := openDir(unix.AT_FDCWD, filepath.Dir(path), 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	name := filepath.Base(path)
	if name == "/" {
		return errors.New("the root directory cannot be copied")
	}
	return k.top(dir, name, path, rel)
}

// top takes an entry of a directory as one that the stream begins with.
func (k *walker) top(dir int, name, path, rel string) error {
	st, err := lstat(dir, name)
	if err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	k.first = st.Mode & unix.S_IFMT
	if err := k.to.top(rel); err != nil {
		return err
	}
	return k.entry(dir, name, path)
}

// many takes what is below root, over no link.
func (k *walker) many(root string, rel []string) error {
	in, err := fsutil.OpenRoot(root)
	if err != nil {
		return err
	}
	defer in.Close()
	if len(rel) == 0 {
		if rel, err = in.ReadDir("."); err != nil {
			return err
		}
	}
	for _, r := range rel {
		r = filepath.Clean(r)
		if !filepath.IsLocal(r) || r == "." {
			return fmt.Errorf("%q is not a path below the directory", r)
		}
		dir, err := in.OpenDir(filepath.Dir(r))
		if err == nil {
			err = k.top(int(dir.Fd()), filepath.Base(r), in.Path(r), r)
			dir.Close()
		}
		if err != nil && (!k.fleeting || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

func openDir(at int, name string, extra int) (int, error) {
	for {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|extra, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func lstat(dir int, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return &st, err
}

func (k *walker) entry(dir int, name, path string) error {
	if err := k.ctx.Err(); err != nil {
		return err
	}
	st, err := lstat(dir, name)
	if err != nil {
		return vanished("lstat", path, err)
	}
	m := &meta{name: name, mode: st.Mode & 0o7777, mtime: st.Mtim.Nano()}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return k.dir(dir, m, path)
	case unix.S_IFREG:
		if k.same != nil {
			if same, err := k.same(dir, path, st); same || err != nil {
				return err
			}
		}
		return k.file(dir, m, path)
	case unix.S_IFLNK:
		buf := make([]byte, maxTarget)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return vanished("readlink", path, err)
		}
		m.kind, m.target = kindSymlink, string(buf[:n])
	case unix.S_IFIFO:
		m.kind = kindFifo
	case unix.S_IFSOCK:
		m.kind = kindSocket
	default:
		return &fs.PathError{Op: "copy", Path: path, Err: errors.New("device files are not carried")}
	}
	return k.to.other(m)
}

// vanished makes nothing of an entry that was removed after it was listed.
func vanished(op, path string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func (k *walker) dir(at int, m *meta, path string) error {
	fd, err := openDir(at, m.name, unix.O_NOFOLLOW)
	if err != nil {
		return vanished("open", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if k.root == nil {
		if k.root, err = f.Stat(); err != nil {
			return err
		}
	}
	m.kind = kindDir
	if m.xattrs, err = readXattrs(fd); err != nil {
		return &fs.PathError{Op: "getxattr", Path: path, Err: err}
	}
	if err := k.to.enter(m); err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := k.entry(fd, name, path+"/"+name); err != nil {
			return err
		}
	}
	return k.to.leave()
}

func (k *walker) file(at int, m *meta, path string) error {
	// O_NONBLOCK: should it have become a FIFO meanwhile, do not wait for a writer.
	fd, err := unix.Openat(at, m.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return vanished("open", path, err)
	}
	f := &file{fd: fd, name: path}
	defer f.close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "fstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &fs.PathError{Op: "open", Path: path, Err: errors.New("changed its type while it was read")}
	}
	m.kind, m.size, m.mtime, m.st = kindFile, st.Size, st.Mtim.Nano(), &st
	m.mode = st.Mode & 0o1777
	if st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if n, seen := k.inodes[id]; seen {
			return k.to.other(&meta{kind: kindHard, name: m.name, link: n})
		}
		m.link = uint64(len(k.inodes) + 1)
		k.inodes[id] = m.link
	}
	if m.xattrs, err = readXattrs(fd); err != nil {
		return &fs.PathError{Op: "getxattr", Path: path, Err: err}
	}
	return k.to.file(k.ctx, m, f)
}

// segments calls move for each stretch of a file that holds data, between two offsets,
// and gives the offset to which it goes, or would. st is what it was when it was opened.
func segments(fd int, st *unix.Stat_t, at, end int64, move func(from, to int64) (int64, error)) (int64, error) {
	if st.Blocks*512 >= st.Size {
		return move(at, end)
	}
	for at < end {
		from, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		if err != nil {
			return 0, err
		}
		if from >= end {
			break
		}
		to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil {
			return 0, err
		}
		to = min(to, end)
		if at, err = move(from, to); err != nil || at < to {
			return at, err
		}
	}
	return end, nil
}

// readXattrs gives the user.* attributes; a file system without any has none.
func readXattrs(fd int) ([]xattr, error) {
	n, err := unix.Flistxattr(fd, nil)
	if n == 0 || err == unix.ENOTSUP || err == unix.EPERM || err == unix.EACCES {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := make([]byte, n+1024)
	if n, err = unix.Flistxattr(fd, list); err != nil {
		return nil, err
	}
	var out []xattr
	for _, name := range strings.Split(string(list[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(fd, name, value)
		if errors.Is(err, syscall.ENODATA) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, xattr{name, string(value[:n])})
	}
	return out, nil
}
