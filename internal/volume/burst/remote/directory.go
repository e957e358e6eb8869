package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/core"
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

// Close implements Remote.
func (t *Tree) Close() error { return t.root.Close() }

// Stat implements Remote.
func (t *Tree) Stat(name string) (Entry, error) {
	info, err := t.root.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	e, err := describe(path.Base(name), info)
	if err == nil && e.Kind == Link {
		e.Target, err = t.root.Readlink(name)
		if !utf8.ValidString(e.Target) { // no journal has it
			e.Kind, e.Target = Other, ""
		}
	}
	return e, err
}

// List implements Remote.
func (t *Tree) List(dir string) ([]Entry, error) { return t.Glance(dir, math.MaxInt) }

// Glance implements Remote.
func (t *Tree) Glance(dir string, most int) ([]Entry, error) {
	names, err := t.root.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(names) > most {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: ErrLarge}
	}
	list := make([]Entry, 0, len(names))
	for _, name := range names {
		if HiddenIn(dir, name) || !utf8.ValidString(name) {
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

// treeFile is a file of a Tree that is being read.
type treeFile struct {
	f       *os.File
	rate    *Rate
	version Version
}

// Open implements Remote.
func (t *Tree) Open(name string) (Source, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	s := &treeFile{f: f, rate: t.rate}
	if s.version, err = s.Now(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// Known implements Remote: a file is what is open.
func (t *Tree) Known(string, Version) Source { return nil }

// Version implements Source.
func (s *treeFile) Version() Version { return s.version }

// Now implements Source.
func (s *treeFile) Now() (Version, error) {
	info, err := s.f.Stat()
	if err != nil {
		return Version{}, err
	}
	e, err := describe(s.f.Name(), info)
	return e.Version, err
}

// Read implements Source.
func (s *treeFile) Read(ctx context.Context, p []byte, off int64) (int, error) {
	if err := s.rate.Wait(ctx, len(p)); err != nil {
		return 0, err
	}
	n, err := s.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Close implements Source.
func (s *treeFile) Close() error { return s.f.Close() }

func (t *Tree) partial(dir string, ino uint64, use string) string {
	return path.Join(dir, fmt.Sprintf("%s%s-%d%s", partialPrefix, t.volume, ino, use))
}

// Write implements Remote: the version is written beside the name, and is on the disk.
func (t *Tree) Write(ctx context.Context, place string, ino uint64, c Content) (name string, v Version, err error) {
	name = t.partial(path.Dir(place), ino, "")
	var f *os.File
	err = t.inDir(name, func() error {
		if err := t.root.Unlink(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, err = t.root.Create(name, 0o600)
		return err
	})
	if err != nil {
		return name, v, err
	}
	defer func() {
		if err != nil {
			core.BestEffort(t.root.Unlink(name)) // the next try removes it, too
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

// inDir changes names in the directory of a name. Programs may write to a file in a directory that was
// made read-only: one of this user's is writable meanwhile.
func (t *Tree) inDir(name string, do func() error) error {
	err := do()
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		err = t.root.Opened(path.Dir(name), 0o700, do)
	}
	return err
}

// Discard implements Remote.
func (t *Tree) Discard(name string, ino uint64) error {
	return t.inDir(name, func() error { return t.root.Unlink(t.partial(path.Dir(name), ino, "")) })
}

// Publish implements Remote.
func (t *Tree) Publish(partial, name string, ours, expect Version) (Version, error) {
	return ours, t.inDir(name, func() error {
		err := t.publish(partial, name, ours, expect)
		if errors.Is(err, fs.ErrClosed) {
			err = &fs.PathError{Op: "publish", Path: t.root.Path(partial), Err: syscall.ENOENT}
		}
		return err
	})
}

// publish moves the version ours from one name to another, in the place of the version expect. The
// error is fs.ErrClosed where another version is at the first name: an agent whose connection was
// lost may carry out late what the next one has done, and more.
func (t *Tree) publish(from, name string, ours, expect Version) error {
	now, err := t.version(name)
	if err != nil {
		return err
	}
	source, err := t.version(from)
	if err != nil {
		return err
	}
	exchanged := false
	if now != ours {
		if now != expect {
			return &fs.PathError{Op: "publish", Path: t.root.Path(name), Err: ErrForeign}
		}
		if source.None() {
			return &fs.PathError{Op: "publish", Path: t.root.Path(from), Err: syscall.ENOENT}
		}
		if source != ours {
			return &fs.PathError{Op: "publish", Path: t.root.Path(from), Err: fs.ErrClosed}
		}
		if expect.None() {
			err := t.root.RenameNew(from, t.root, name)
			if errors.Is(err, fs.ErrExist) {
				err = &fs.PathError{Op: "publish", Path: t.root.Path(name), Err: ErrForeign}
			}
			if err != nil {
				return err
			}
			return t.root.SyncDir(path.Dir(name))
		}
		err := t.root.Exchange(from, name)
		exchanged = err == nil
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM) {
			err = t.root.Rename(from, t.root, name) // it was looked at above
		}
		if err != nil {
			return err
		}
		if source, err = t.version(from); err != nil {
			return err
		}
	}
	switch {
	case source.None():
	case source == expect || source == ours:
		if err := t.root.Unlink(from); err != nil {
			return err
		}
	case exchanged: // it came to the name after that was looked at
		return errors.Join(&fs.PathError{Op: "publish", Path: t.root.Path(name), Err: ErrForeign}, t.root.Exchange(from, name))
	}
	return t.root.SyncDir(path.Dir(name))
}

func (t *Tree) version(name string) (Version, error) {
	e, err := t.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return e.Version, err
}

// Remove implements Remote.
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

// Move implements Remote.
func (t *Tree) Move(from, to string, _ uint64, ours, expect Version) (Version, error) {
	return ours, t.synced(t.publish(from, to, ours, expect), from)
}

// MoveDir implements Remote.
func (t *Tree) MoveDir(from, to string, _ uint64, ours Version, over bool) (map[string]Version, error) {
	if !over {
		return nil, t.synced(t.publish(from, to, ours, Version{}), from)
	}
	return nil, t.moveDirOver(from, to, ours)
}

func (t *Tree) moveDirOver(from, to string, ours Version) error {
	if now, err := t.version(to); err == nil && now == ours {
		return t.synced(nil, from, to)
	}
	switch source, err := t.version(from); {
	case err != nil:
		return err
	case source.None():
		return &fs.PathError{Op: "rename", Path: t.root.Path(from), Err: syscall.ENOENT}
	case source != ours:
		return &fs.PathError{Op: "rename", Path: t.root.Path(from), Err: fs.ErrClosed}
	}
	err := t.root.Rename(from, t.root, to)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTDIR) {
		return &fs.PathError{Op: "rename", Path: t.root.Path(to), Err: ErrForeign}
	}
	return t.synced(err, from, to)
}

// Moving implements Remote.
func (t *Tree) Moving(uint64) bool { return false }

// Ensure implements Remote.
func (t *Tree) Ensure(dir string) error {
	_, err := t.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) || dir == "." {
		return err
	}
	if err := t.Ensure(path.Dir(dir)); err != nil {
		return err
	}
	return t.Mkdir(dir, 0o777&^0o022)
}

// Mkdir implements Remote.
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
		err = t.root.Chmod(name, fsutil.FileMode(mode))
	}
	return t.synced(err, name)
}

// Rmdir implements Remote.
func (t *Tree) Rmdir(name string) error {
	err := t.root.Rmdir(name)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		if serr := t.sweep(name); serr != nil {
			return serr
		}
		err = t.root.Rmdir(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.synced(nil, name)
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTDIR):
		return &fs.PathError{Op: "remove directory", Path: t.root.Path(name), Err: ErrForeign}
	}
	return t.synced(err, name)
}

// sweep removes from a directory what volumes that had the remote before were sending.
func (t *Tree) sweep(dir string) error {
	names, err := t.root.ReadDir(dir)
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, partialPrefix) && !strings.HasPrefix(name, partialPrefix+t.volume+"-") {
			if err = t.root.Unlink(path.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	}
	return err
}

// Symlink implements Remote.
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

// SetAttr implements Remote.
func (t *Tree) SetAttr(name string, _ uint64, ours Version, mode uint32, mtime int64) (Version, error) {
	now, err := t.Stat(name)
	mine := ours
	mine.Mtime = mtime // before a crash
	if err == nil && now.Version != ours && now.Version != mine {
		err = &fs.PathError{Op: "set attributes", Path: t.root.Path(name), Err: ErrForeign}
	}
	if err == nil {
		err = t.root.Chmod(name, fsutil.FileMode(mode))
	}
	if err == nil {
		err = t.root.SetTime(name, time.Unix(0, mtime))
	}
	if err == nil {
		err = t.root.SyncDir(name)
	}
	if err != nil {
		return Version{}, err
	}
	now, err = t.Stat(name)
	return now.Version, err
}

// Keep implements Remote by a hard link, and by a copy where the file system has none. A version that
// takes the place of a file is another file, so that the link keeps the old one.
func (t *Tree) Keep(from, to string, ours Version) error {
	foreign := &fs.PathError{Op: "keep", Path: t.root.Path(from), Err: ErrForeign}
	if now, err := t.version(from); err != nil || now != ours {
		return errors.Join(err, foreign)
	}
	if err := t.root.Unlink(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := t.root.Link(from, t.root, to)
	if fsutil.Linkless(err) || errors.Is(err, syscall.EXDEV) {
		err = t.copied(from, to)
	}
	if err != nil {
		return err
	}
	if now, err := t.version(from); err != nil || now != ours { // it was changed meanwhile
		return errors.Join(err, foreign, t.root.Unlink(to))
	}
	return t.root.SyncDir(path.Dir(to))
}

func (t *Tree) copied(from, to string) error {
	in, err := t.root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := t.root.Create(to, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// Check implements Remote.
func (t *Tree) Check(name string) error { return CheckPath(name) }

// Traits implements Remote.
func (t *Tree) Traits() Traits { return Traits{Keeps: true, Moves: true, Fresh: time.Second} }

// mostRecord bounds the record of a volume, in bytes.
const mostRecord = 1 << 16

// Record implements Remote.
func (t *Tree) Record() ([]byte, error) { return t.root.ReadFile(RecordName, mostRecord) }

// SetRecord implements Remote.
func (t *Tree) SetRecord(raw []byte) error {
	if err := t.root.MkdirAll(Directory, 0o700); err != nil {
		return err
	}
	own := strings.TrimSuffix(RecordName, ".json") + "-" + t.volume + ".json"
	if err := t.root.WriteFile(own, raw, 0o600); err != nil {
		return err
	}
	if err := t.root.RenameNew(own, t.root, RecordName); err != nil {
		return errors.Join(err, t.root.Unlink(own))
	}
	return t.root.SyncDir(Directory)
}

// ReplaceRecord implements Remote.
func (t *Tree) ReplaceRecord(old, raw []byte) error {
	return t.Locked(context.Background(), func() error {
		now, err := t.Record()
		if err == nil && !bytes.Equal(now, old) {
			err = &fs.PathError{Op: "replace", Path: t.RecordPath(), Err: syscall.EEXIST}
		}
		if err != nil {
			return err
		}
		return errors.Join(t.root.WriteFile(RecordName, raw, 0o600), t.root.SyncDir(Directory))
	})
}

// Locked carries something out while no one else who locks the directory does. A file system without locks
// is used without. Once ctx has ended, nothing is carried out any more.
func (t *Tree) Locked(ctx context.Context, do func() error) error {
	fd, err := unix.Open(t.root.Pinned(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: t.root.Path("."), Err: err}
	}
	defer unix.Close(fd)
	fsutil.Flock(ctx, fd, unix.LOCK_EX) //nolint:errcheck // see above
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return do()
}

// RemoveRecord implements Remote.
func (t *Tree) RemoveRecord() error {
	if err := t.root.Unlink(RecordName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	core.BestEffort(t.root.Rmdir(Directory)) // something else may be in it
	return nil
}

// RecordPath implements Remote.
func (t *Tree) RecordPath() string { return t.root.Path(RecordName) }

// Stop implements Remote.
func (t *Tree) Stop() {}

func (t *Tree) synced(err error, names ...string) error {
	done := ""
	for _, name := range names {
		if dir := path.Dir(name); err == nil && dir != done {
			err, done = t.root.SyncDir(dir), dir
		}
	}
	return err
}

// Space implements Remote.
func (t *Tree) Space() (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(t.root.Pinned(), &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil // less than 2^63 bytes
}
