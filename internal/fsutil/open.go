package fsutil

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// beneath is how openat2 resolves names: below the directory, over no link.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// directory is the descriptor of a directory, below which names are opened.
type directory struct{ f *os.File }

// path is the path of a name, for messages.
func (d directory) path(name string) string { return filepath.Join(d.f.Name(), name) }

// local gives a name its shortest form, and refuses one that leads out.
func (d directory) local(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || !filepath.IsLocal(clean) || strings.ContainsRune(name, 0) {
		return "", &fs.PathError{Op: "open", Path: name, Err: errors.New("not a name below " + d.f.Name())}
	}
	return clean, nil
}

// openat opens a name, no element of which is a link.
func (d directory) openat(name string, flags int, mode uint32) (int, error) {
	name, err := d.local(name)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Openat2(int(d.f.Fd()), name, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: beneath})
	for errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
		fd, err = unix.Openat2(int(d.f.Fd()), name, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: beneath})
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.6, or a filter of system calls
		fd, err = stepwise(int(d.f.Fd()), name, flags, mode)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: d.path(name), Err: err}
	}
	return fd, nil
}

// stepwise does what openat2 would, one element after the other.
func stepwise(at int, name string, flags int, mode uint32) (int, error) {
	elements := strings.Split(name, "/")
	dir := at
	for i, element := range elements {
		how := unix.O_PATH | unix.O_DIRECTORY
		if i == len(elements)-1 {
			how = flags
		}
		fd, err := unix.Openat(dir, element, how|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		for errors.Is(err, unix.EINTR) {
			fd, err = unix.Openat(dir, element, how|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		}
		if dir != at {
			unix.Close(dir)
		}
		if err != nil {
			return -1, err
		}
		dir = fd
	}
	return dir, nil
}

// parent opens the directory of a name, and gives the last element.
func (d directory) parent(name string) (dir int, base string, err error) {
	if name, err = d.local(name); err == nil && name == "." {
		err = &fs.PathError{Op: "open", Path: d.f.Name(), Err: errors.New("not a name below it")}
	}
	if err != nil {
		return -1, "", err
	}
	dir, err = d.openat(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	return dir, path.Base(name), err
}

// OpenDir opens a directory for listing.
func (r *Root) OpenDir(name string) (*os.File, error) {
	fd, err := r.dir.openat(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), r.Path(name)), nil
}

// at does something with the last element of a name, in the directory of that.
func (d directory) at(op, name string, do func(dir int, base string) error) error {
	dir, base, err := d.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return d.fail(op, name, do(dir, base))
}

func (d directory) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: d.path(name), Err: err}
}

// move is at for two names, the second below another directory.
func (d directory) move(op, from string, to directory, name string, do func(dir int, base string, at int, as string) error) error {
	return d.at(op, from, func(dir int, base string) error {
		at, as, err := to.parent(name)
		if err != nil {
			return err
		}
		defer unix.Close(at)
		return do(dir, base, at, as)
	})
}

func sortedNames(f *os.File) ([]string, error) {
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// openDir opens a directory of another for listing.
func openDir(at int, name string, extra int) (int, error) {
	for {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|extra, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// chmod sets the mode of what an O_PATH descriptor means. fchmod refuses it; its name in
// /proc does not.
func chmod(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}
