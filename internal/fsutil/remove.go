package fsutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// RemoveAll removes path and everything in it, like os.RemoveAll, but also
// where directories of the caller's own deny the caller access. What is gone
// is success.
func RemoveAll(path string) error {
	path = filepath.Clean(path)
	dir, err := openDir(unix.AT_FDCWD, filepath.Dir(path), 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	defer unix.Close(dir)
	if err := RemoveAt(dir, filepath.Base(path)); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// TryRemove removes a file or an empty directory that nobody needs any more. What stays does
// no harm, or is removed by the next process that looks there.
func TryRemove(path string) { core.BestEffort(os.Remove(path)) }

// TryRemoveAll is TryRemove for a path and everything in it, as RemoveAll removes it.
func TryRemoveAll(path string) { core.BestEffort(RemoveAll(path)) }

// RemoveAt removes name, whatever it is, from the directory of a descriptor. It follows no link.
func RemoveAt(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	// A process that is just ending may still add files: come back a few times.
	for try := range 8 {
		err = removeDir(dir, name)
		if errors.Is(err, unix.ENOENT) {
			return nil // another process removes it, too
		}
		if !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		time.Sleep(time.Millisecond << try)
	}
	return err
}

func removeDir(dir int, name string) error {
	err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := openDir(dir, name, unix.O_NOFOLLOW)
	if errors.Is(err, unix.EACCES) {
		if err = allow(dir, name); err == nil {
			fd, err = openDir(dir, name, unix.O_NOFOLLOW)
		}
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	opened := false
	for _, n := range names {
		err := RemoveAt(fd, n)
		if errors.Is(err, unix.EACCES) && !opened {
			opened = true
			if err = unix.Fchmod(fd, 0o700); err == nil {
				err = RemoveAt(fd, n)
			}
		}
		if err != nil {
			return &fs.PathError{Op: "remove", Path: n, Err: err}
		}
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// allow gives the owner full access to a directory, without following a link.
func allow(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// fchmod refuses an O_PATH descriptor; its /proc name does not.
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
