package fsutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Append opens a plain file for adding to its end, and makes it if it is missing. It does
// not wait for the reader of a FIFO. Writes through the descriptor, and through those that
// processes inherit, wait as they do for any file.
func (r *Root) Append(name string, mode fs.FileMode) (*os.File, error) {
	return r.dir.openPlain(name, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND, mode)
}

// Empty opens a plain file for reading and writing, empties it, and makes it if it is
// missing. It does not wait, as Append.
func (r *Root) Empty(name string, mode fs.FileMode) (*os.File, error) {
	f, err := r.dir.openPlain(name, unix.O_RDWR|unix.O_CREAT, mode)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadWrite opens a plain file for reading and writing, which is there. It does not wait,
// as Append.
func (r *Root) ReadWrite(name string) (*os.File, error) { return r.dir.openPlain(name, unix.O_RDWR, 0) }

// Append is the method Append for a file in a directory that the caller trusts.
func Append(path string, mode fs.FileMode) (*os.File, error) {
	return inDir(path, mode, (*Root).Append)
}

// Empty is the method Empty for a file in a directory that the caller trusts.
func Empty(path string, mode fs.FileMode) (*os.File, error) { return inDir(path, mode, (*Root).Empty) }

func inDir(path string, mode fs.FileMode, open func(*Root, string, fs.FileMode) (*os.File, error)) (*os.File, error) {
	r, err := OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return open(r, filepath.Base(path), mode)
}

// openPlain opens a plain file. An error wraps ErrNotPlain where something else is there.
func (d directory) openPlain(name string, flags int, mode fs.FileMode) (*os.File, error) {
	// O_NONBLOCK: the name may be that of a FIFO.
	fd, err := d.openat(name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, uint32(mode.Perm()))
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EISDIR) { // a link; a FIFO or socket; a directory
		err = &fs.PathError{Op: "open", Path: d.path(name), Err: fmt.Errorf("%w: %w", ErrNotPlain, errors.Unwrap(err))}
	}
	if err != nil {
		return nil, err
	}
	plain := func() error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return ErrNotPlain
		}
		now, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == nil { // processes inherit it
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, now&^unix.O_NONBLOCK)
		}
		return err
	}
	if err := plain(); err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: d.path(name), Err: err}
	}
	return os.NewFile(uintptr(fd), d.path(name)), nil
}
