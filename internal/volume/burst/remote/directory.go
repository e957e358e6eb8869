package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Tree is a directory as a remote.
type Tree struct {
	root   *fsutil.Root
	volume string
	rate   *Rate
}

// OpenTree opens a directory for the volume of an id, which distinguishes what several
// leave there. Bytes in either direction pass through rate.
func OpenTree(dir, volume string, rate *Rate) (*Tree, error) {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Tree{root: root, volume: volume, rate: rate}, nil
}

// Close releases the directory.
func (t *Tree) Close() error { return t.root.Close() }

// Root is the directory itself, for records of BEE in it.
func (t *Tree) Root() *fsutil.Root { return t.root }

// Stat describes what is at a name; "." is the directory itself.
func (t *Tree) Stat(name string) (Entry, error) {
	info, err := t.root.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	e, err := describe(path.Base(name), info)
	if err == nil && e.Kind == Link {
		e.Target, err = t.root.Readlink(name)
	}
	return e, err
}

// List describes what is in a directory, without what is hidden.
func (t *Tree) List(dir string) ([]Entry, error) {
	names, err := t.root.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(names))
	for _, name := range names {
		if Hidden(name, dir == ".") {
			continue
		}
		e, err := t.Stat(path.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Source is a file of the remote that is being read.
type Source struct {
	f       *os.File
	rate    *Rate
	Version Version
}

// Open opens a file for reading.
func (t *Tree) Open(name string) (*Source, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	s := &Source{f: f, rate: t.rate}
	if s.Version, err = s.Now(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// Now is the version that the file has now, whatever is at its name.
func (s *Source) Now() (Version, error) {
	info, err := s.f.Stat()
	if err != nil {
		return Version{}, err
	}
	e, err := describe(s.f.Name(), info)
	return e.Version, err
}

// Read fills p from an offset, as io.ReaderAt.
func (s *Source) Read(ctx context.Context, p []byte, off int64) (int, error) {
	if err := s.rate.Wait(ctx, len(p)); err != nil {
		return 0, err
	}
	n, err := s.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Close ends the reading.
func (s *Source) Close() error { return s.f.Close() }

// Content is a version of a file that is to be written.
type Content struct {
	Size  int64
	Mode  uint32
	Mtime int64
	// Data calls put for all that is not a hole, in order.
	Data func(put func(off int64, data []byte) error) error
}

func (t *Tree) partial(dir string, ino uint64, use string) string {
	return path.Join(dir, fmt.Sprintf("%s%s-%d%s", partialPrefix, t.volume, ino, use))
}

// Write writes a version beside the names of a directory, and gives its own name there.
// It is on the disk, and may take its place by Publish. ino distinguishes files.
func (t *Tree) Write(ctx context.Context, dir string, ino uint64, c Content) (name string, v Version, err error) {
	name = t.partial(dir, ino, "")
	if err := t.root.Unlink(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return name, v, err
	}
	f, err := t.root.Create(name, 0o600)
	if err != nil {
		return name, v, err
	}
	defer func() {
		if err != nil {
			t.root.Unlink(name) //nolint:errcheck // the next try removes it, too
		}
	}()
	defer f.Close()
	err = c.Data(func(off int64, data []byte) error {
		for len(data) > 0 {
			n := min(len(data), 256<<10)
			if err := t.rate.Wait(ctx, n); err != nil {
				return err
			}
			if _, err := f.WriteAt(data[:n], off); err != nil {
				return err
			}
			data, off = data[n:], off+int64(n)
		}
		return ctx.Err()
	})
	if err == nil {
		err = f.Truncate(c.Size)
	}
	if err == nil {
		err = unix.Fchmod(int(f.Fd()), c.Mode)
	}
	if err == nil {
		err = t.root.SetTime(name, time.Unix(0, c.Mtime))
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return name, v, err
	}
	e, err := t.Stat(name)
	return name, e.Version, err
}

// Discard removes what Write wrote for a file and nobody will publish.
func (t *Tree) Discard(dir string, ino uint64) error { return t.root.Unlink(t.partial(dir, ino, "")) }

// Publish gives a name the version ours, which Write wrote as partial, where the version
// expect is now; ErrForeign where another one is. After a crash it is called again.
func (t *Tree) Publish(partial, name string, ours, expect Version) error {
	now, err := t.version(name)
	if err != nil {
		return err
	}
	if now != ours {
		if now != expect {
			return &fs.PathError{Op: "publish", Path: t.root.Path(name), Err: ErrForeign}
		}
		if expect.None() {
			err := t.root.RenameNew(partial, t.root, name)
			if errors.Is(err, fs.ErrExist) {
				err = &fs.PathError{Op: "publish", Path: t.root.Path(name), Err: ErrForeign}
			}
			if err != nil {
				return err
			}
			return t.root.SyncDir(path.Dir(name))
		}
		err := t.root.Exchange(partial, name)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM) {
			err = t.root.Rename(partial, t.root, name) // it was looked at above
		}
		if err != nil {
			return err
		}
	}
	// What was at the name may have changed since it was looked at.
	switch before, err := t.version(partial); {
	case err != nil:
		return err
	case before.None() || before == expect || before == ours:
		if !before.None() {
			if err := t.root.Unlink(partial); err != nil {
				return err
			}
		}
		return t.root.SyncDir(path.Dir(name))
	}
	return errors.Join(&fs.PathError{Op: "publish", Path: t.root.Path(name), Err: ErrForeign}, t.root.Exchange(partial, name))
}

func (t *Tree) version(name string) (Version, error) {
	e, err := t.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return e.Version, err
}

// Remove removes a file or link if its version is expect: ErrForeign where it is another
// one. What is gone is success. After a crash it is called again.
func (t *Tree) Remove(name string, ino uint64, expect Version) error {
	aside := t.partial(path.Dir(name), ino, "-removed")
	asideNow, err := t.version(aside)
	if err != nil {
		return err
	}
	if asideNow.None() {
		now, err := t.version(name)
		if err != nil {
			return err
		}
		if now.None() {
			return t.root.SyncDir(path.Dir(name))
		}
		if now != expect {
			return &fs.PathError{Op: "remove", Path: t.root.Path(name), Err: ErrForeign}
		}
		if err := t.root.RenameNew(name, t.root, aside); err != nil {
			return err
		}
		if asideNow, err = t.version(aside); err != nil {
			return err
		}
	}
	if asideNow != expect {
		back := t.root.RenameNew(aside, t.root, name)
		if errors.Is(back, fs.ErrExist) { // one more has come since
			back = t.root.RenameNew(aside, t.root, path.Join(path.Dir(name), Conflict(path.Base(name), t.volume+"-removed")))
		}
		return errors.Join(&fs.PathError{Op: "remove", Path: t.root.Path(name), Err: ErrForeign}, back)
	}
	if err := t.root.Unlink(aside); err != nil {
		return err
	}
	return t.root.SyncDir(path.Dir(name))
}

// MoveOver moves a file or link of the version ours to another name, in the place of the
// version expect: ErrForeign where another one is there. After a crash it is called again.
func (t *Tree) MoveOver(from, to string, ours, expect Version) error {
	return t.synced(t.Publish(from, to, ours, expect), from)
}

// MoveDir moves a directory of the version ours to the place of an empty one: ErrForeign
// where that is not empty. After a crash it is called again.
func (t *Tree) MoveDir(from, to string, ours Version) error {
	if now, err := t.version(to); err == nil && now == ours {
		return t.synced(nil, from, to)
	}
	err := t.root.Rename(from, t.root, to)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTDIR) {
		return &fs.PathError{Op: "rename", Path: t.root.Path(to), Err: ErrForeign}
	}
	return t.synced(err, from, to)
}

// Mkdir makes a directory. One that is there is success.
func (t *Tree) Mkdir(name string, mode uint32) error {
	err := t.root.Mkdir(name, fs.FileMode(mode).Perm()) // a retry after a crash leaves it so
	if errors.Is(err, fs.ErrExist) {
		e, serr := t.Stat(name)
		if serr == nil && e.Kind == Dir {
			return t.synced(nil, name)
		}
		return errors.Join(&fs.PathError{Op: "make directory", Path: t.root.Path(name), Err: ErrForeign}, serr)
	}
	if err == nil {
		err = t.SetMode(name, mode)
	}
	return t.synced(err, name)
}

// Rmdir removes an empty directory: ErrForeign where another program has put something
// into it. What is gone is success.
func (t *Tree) Rmdir(name string) error {
	err := t.root.Rmdir(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.synced(nil, name)
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTDIR):
		return &fs.PathError{Op: "remove directory", Path: t.root.Path(name), Err: ErrForeign}
	}
	return t.synced(err, name)
}

// Symlink makes a link. The same one is success.
func (t *Tree) Symlink(target, name string) error {
	err := t.root.Symlink(target, name)
	if errors.Is(err, fs.ErrExist) {
		e, serr := t.Stat(name)
		if serr == nil && e.Kind == Link && e.Target == target {
			return t.synced(nil, name)
		}
		return errors.Join(&fs.PathError{Op: "make link", Path: t.root.Path(name), Err: ErrForeign}, serr)
	}
	return t.synced(err, name)
}

// SetMode sets permissions.
func (t *Tree) SetMode(name string, mode uint32) error {
	return t.root.Chmod(name, fsutil.FileMode(mode))
}

// SetTime sets when a file or directory was last modified, and writes its attributes to the
// disk.
func (t *Tree) SetTime(name string, mtime int64) error {
	if err := t.root.SetTime(name, time.Unix(0, mtime)); err != nil {
		return err
	}
	return t.root.SyncDir(name)
}

func (t *Tree) synced(err error, names ...string) error {
	done := ""
	for _, name := range names {
		if dir := path.Dir(name); err == nil && dir != done {
			err, done = t.root.SyncDir(dir), dir
		}
	}
	return err
}

// Space is how many bytes the file system has, and how many of them are free for the user.
func (t *Tree) Space() (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(t.root.Pinned(), &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil //nolint:gosec // less than 2^63 bytes
}
