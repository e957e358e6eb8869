package fsutil

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncsAtOnce is how many files are synced at a time: the journal of a file system
// writes several in one go.
const syncsAtOnce = 16

// SyncTree writes a file, or a directory and everything in it, to the disk, and the name
// of it. Links are not followed.
func SyncTree(ctx context.Context, path string) error {
	path = filepath.Clean(path)
	r, err := OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Sync(ctx, filepath.Base(path)); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Sync writes what is at a name, and everything in it, to the disk.
func (r *Root) Sync(ctx context.Context, name string) error {
	var working sync.WaitGroup
	gate := make(chan struct{}, syncsAtOnce)
	var mu sync.Mutex
	var failed error
	err := r.Walk(name, func(name string, info fs.FileInfo, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && isShut(info) {
			// Before anything else opens it: who shuts it again must not do so below this walk.
			if err := r.Opened(name, 0o500, func() error { return r.Sync(ctx, name) }); err != nil {
				return err
			}
			return fs.SkipDir
		}
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			return err
		}
		mu.Lock()
		err = failed
		mu.Unlock()
		if err != nil {
			return err
		}
		gate <- struct{}{}
		working.Go(func() {
			defer func() { <-gate }()
			if err := r.syncOne(name); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
		return nil
	})
	working.Wait()
	if err == nil {
		err = failed
	}
	return err
}

// SyncDir writes the names in a directory of the tree to the disk.
func (r *Root) SyncDir(name string) error { return r.syncOne(name) }

func (r *Root) syncOne(name string) error {
	err := r.dir.fsync(name)
	if errors.Is(err, fs.ErrPermission) {
		opening.Lock()
		err = r.Opened(name, 0o500, func() error { return r.dir.fsync(name) })
		opening.Unlock()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d directory) fsync(name string) error {
	fd, err := d.openat(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return d.fail("sync", name, fsync(fd))
}

// opening is held while a file that was shut is open: two names of it would each take the
// other's mode for its own.
var opening sync.Mutex

// isShut reports whether something is a directory of this user's that its own mode keeps them
// from reading.
func isShut(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	uid := os.Geteuid()
	return ok && uid != 0 && int(st.Uid) == uid && info.IsDir() && info.Mode().Perm()&0o500 != 0o500
}

// Opened does something while a file or directory that was shut has more permissions of its owner.
func (r *Root) Opened(name string, more uint32, do func() error) error {
	shut, err := r.dir.openat(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(shut)
	var st unix.Stat_t
	if err := unix.Fstat(shut, &st); err != nil {
		return r.dir.fail("stat", name, err)
	}
	mode := st.Mode & 0o7777
	if err := chmod(shut, mode|more&0o700); err != nil {
		return r.dir.fail("set mode of", name, err)
	}
	return errors.Join(do(), r.dir.fail("set mode of", name, chmod(shut, mode)))
}

// syncFD syncs a directory by an O_PATH descriptor of one above it.
func syncFD(at int, name string) error {
	fd, err := openDir(at, name, unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return fsync(fd)
}

func fsync(fd int) error {
	for {
		if err := unix.Fsync(fd); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
