package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// workplace is a directory in tmp for what is in the making. It is locked by
// the process that makes it, so that what a killed process left is distinguished.
type workplace struct {
	dir  string
	lock *os.File
}

func (d directory) newWorkplace() (*workplace, error) {
	// Between making and locking it, a sweep must not take it for a leftover.
	gate, err := d.gate(unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer gate.Close()
	dir, err := os.MkdirTemp(d.folder("tmp"), "work-")
	if err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: dir, Err: err}
	}
	return &workplace{dir, f}, nil
}

func (d directory) gate(how int) (*os.File, error) {
	f, err := os.OpenFile(d.path("locks", "workplaces"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return f, fsutil.Flock(context.Background(), int(f.Fd()), how)
}

// path names something in the workplace.
func (w *workplace) path(name string) string { return filepath.Join(w.dir, name) }

// end removes the workplace with what is still in it.
func (w *workplace) end() {
	fsutil.TryRemoveAll(w.dir) // a sweep finds it, for its lock is free
	w.lock.Close()
}

// publish writes a small file in one step. Unlike fsutil.WriteFile it leaves what a killed
// process had begun in a workplace, which the sweep finds, and not among the files of the
// cache.
func (d directory) publish(path string, content []byte) error {
	w, err := d.newWorkplace()
	if err != nil {
		return err
	}
	defer w.end()
	f, err := os.OpenFile(w.path("file"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// sweep removes what processes that died have left in the making. Layers that
// came only in part stay: the next pull continues from there.
func (d directory) sweep() error {
	entries, err := os.ReadDir(d.folder("tmp"))
	if err != nil || len(entries) == 0 {
		return err
	}
	gate, err := d.gate(unix.LOCK_EX)
	if err != nil {
		return err
	}
	var errs []error
	var left []*os.File
	for _, e := range entries {
		f, err := lockLeft(filepath.Join(d.folder("tmp"), e.Name()))
		if errs = append(errs, err); f != nil {
			left = append(left, f)
		}
	}
	gate.Close() // what is left is locked by us now; removing it may take long
	for _, f := range left {
		errs = append(errs, removeLeft(f.Name()), f.Close())
	}
	return errors.Join(errs...)
}

// lockLeft locks a file or directory that no process has locked; nil where one
// has.
func lockLeft(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX) != nil {
		f.Close()
		return nil, nil
	}
	return f, nil
}

func removeLeft(path string) error {
	err := fsutil.RemoveAll(path)
	if errors.Is(err, fs.ErrPermission) {
		// An ordinary user's build has files of the user's subordinate ids.
		if exec.Command("mmdebstrap", "--unshare-helper", "rm", "-rf", path).Run() == nil { //nolint:noctx // as for what we can remove ourselves
			return nil
		}
	}
	return err
}
