// Package hostdir opens directories of a host that a job mounts. Each is opened once and
// tried by what its user may do in it; what is bound into a container is known to be that
// very directory by its ID. The package knows nothing of sites, nodes or containers.
package hostdir

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Open opens a directory that the caller may list and enter, and with write also change.
// Links in its path are followed. Unsupported: there is none, it is a file, or the caller
// may not. Transient: its file system does not answer before ctx ends.
func Open(ctx context.Context, path string, write bool) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	ready := make(chan opened, 1)
	go func() { // a file system whose server is gone may never answer
		f, err := open(path, write)
		ready <- opened{f, err}
	}()
	select {
	case o := <-ready:
		if o.err != nil {
			return nil, unusable(path, o.err)
		}
		return o.f, nil
	case <-ctx.Done():
		go func() {
			if o := <-ready; o.err == nil {
				o.f.Close()
			}
		}()
		return nil, unusable(path, context.Cause(ctx))
	}
}

func open(path string, write bool) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if err := try(f, write); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// try lists and enters a directory: a server may refuse what its permissions seem to allow.
func try(dir *os.File, write bool) error {
	if _, err := dir.Readdirnames(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), ".", &st, 0); err != nil {
		return err
	}
	if !write {
		return nil
	}
	return unix.Faccessat(int(dir.Fd()), ".", unix.W_OK, unix.AT_EACCESS)
}

// unusable is the error of a directory that cannot be mounted.
func unusable(path string, err error) error {
	e := &core.Error{Kind: core.Unsupported, Op: "mount", Object: path, Err: err}
	if inner, ok := errors.AsType[*os.PathError](err); ok { // it names the path again
		e.Err = inner.Err
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		e.Remedy = "Make the directory there, name another in `mounts:`, or map a name by `paths:` of the site."
	case errors.Is(err, unix.ENOTDIR):
		e.Remedy = "Mount the directory that the file lies in."
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		e.Remedy = "Ask its owner for access, or mount without `write: true` where you may only read."
	case errors.Is(err, unix.EROFS):
		e.Remedy = "Its file system is read-only there: mount it without `write: true`."
	default:
		e.Kind, e.Remedy = core.Transient, "Is its file system mounted, and does its server answer?"
	}
	return e
}

// ID is what a directory is known by as long as someone has it open.
type ID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// IDOf returns that of an open directory.
func IDOf(dir *os.File) (ID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return ID{}, &os.PathError{Op: "stat", Path: dir.Name(), Err: err}
	}
	return ID{Dev: st.Dev, Ino: st.Ino}, nil
}

// Real returns the path without links at which an open directory is now. NotFound: it was
// removed.
func Real(dir *os.File) (string, error) {
	path, err := os.Readlink(filepath.Join("/proc/self/fd", itoa(dir))) //nolint:forbidigo // the kernel fills it
	if err != nil {
		return "", err
	}
	id, err := IDOf(dir)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || (ID{st.Dev, st.Ino}) != id {
		return "", &core.Error{Kind: core.NotFound, Op: "mount", Object: dir.Name(), Err: errors.New("it was renamed or removed meanwhile"), Remedy: core.RemedyAgain}
	}
	return path, nil
}

// Reopen opens a path that has to be the directory of an ID, in the mount namespace of the
// caller: only there it can be bound.
func Reopen(path string, id ID) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, unusable(path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	is, err := IDOf(f)
	if err == nil && is != id {
		err = &core.Error{Kind: core.Unsupported, Op: "mount", Object: path, Err: errors.New("another directory has taken its place meanwhile"), Remedy: core.RemedyAgain}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
