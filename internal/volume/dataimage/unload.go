package dataimage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Unload copies what the image holds into a directory, which is made and must
// not hold anything else of the same names. Of wanted, patterns of paths, only
// what one matches by the rules of fsutil.Match, and what is below that; none, or
// "." among them: all. Permissions, times, holes and hard links are kept, but no
// set-user-id and set-group-id bits, no extended attributes and no devices; everything
// belongs to the caller. All of it is on the disk when Unload returns.
func (i *Image) Unload(ctx context.Context, dir string, wanted []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fileError("empty data image into", dir, err)
	}
	// What is written stays below the directory, whatever a damaged or
	// malicious image says.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fileError("empty data image into", dir, err)
	}
	defer root.Close()
	u := &unloading{i: i, root: root, wanted: wanted, names: map[int64]string{}}
	if err := i.walk(ctx, func(name string, e entry) error { return u.take(ctx, name, e) }); err != nil {
		return explain(dir, err)
	}
	for k := len(u.dirs) - 1; k >= 0; k-- { // the innermost first, as each changes its parent
		d := u.dirs[k]
		if err := errors.Join(root.Chmod(d.name, d.mode), root.Chtimes(d.name, d.modified, d.modified)); err != nil {
			return explain(dir, err)
		}
	}
	return explain(dir, syncFileSystem(dir))
}

func explain(dir string, err error) error {
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*core.Error](err); ours || errors.Is(err, context.Canceled) {
		return err
	}
	e := &core.Error{Kind: core.Permanent, Op: "empty data image into", Object: dir, Err: err}
	if fsutil.IsFull(err) {
		e.Remedy = "Free space there; the image still holds everything."
	}
	return e
}

type unloading struct {
	i      *Image
	root   *os.Root
	wanted []string
	names  map[int64]string // of files with several names: the first
	dirs   []dirMeta
}

type dirMeta struct {
	name     string
	mode     fs.FileMode
	modified time.Time
}

func (u *unloading) matches(name string) bool {
	if len(u.wanted) == 0 || slices.Contains(u.wanted, ".") {
		return true
	}
	for p := name; p != "."; p = path.Dir(p) {
		for _, w := range u.wanted {
			if ok, err := fsutil.Match(w, p); err == nil && ok {
				return true
			}
		}
	}
	return false
}

func (u *unloading) take(ctx context.Context, name string, e entry) error {
	if !u.matches(name) {
		return nil
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if !e.IsDir() && e.inode.Links > 1 {
		if first, known := u.names[e.inode.Number]; known {
			return u.root.Link(first, name)
		}
		u.names[e.inode.Number] = name
	}
	switch e.Type() {
	case fs.ModeDir:
		u.dirs = append(u.dirs, dirMeta{name, permissions(e.Mode()), e.ModTime()})
		if err := u.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case fs.ModeSymlink:
		target, err := u.i.target(e.inode)
		if err != nil {
			return err
		}
		if err := u.root.Symlink(target, name); err != nil {
			return err
		}
		return u.linkTime(name, e)
	case fs.ModeNamedPipe:
		if err := u.inParent(name, func(dir int, base string) error { return unix.Mknodat(dir, base, unix.S_IFIFO|0o600, 0) }); err != nil {
			return err
		}
	case 0:
		if err := u.content(ctx, name, e); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	default:
		return nil // devices are root's, and sockets no one's
	}
	return errors.Join(u.root.Chmod(name, permissions(e.Mode())), u.root.Chtimes(name, e.ModTime(), e.ModTime()))
}

// permissions are those that a file gets outside of the image. Bits that give anyone who
// runs it the rights of its owner or group, who is the caller now, are not among them.
func permissions(mode fs.FileMode) fs.FileMode { return mode.Perm() | mode&fs.ModeSticky }

func (u *unloading) linkTime(name string, e entry) error {
	when := []unix.Timespec{unix.NsecToTimespec(e.ModTime().UnixNano()), unix.NsecToTimespec(e.ModTime().UnixNano())}
	return u.inParent(name, func(dir int, base string) error {
		return unix.UtimesNanoAt(dir, base, when, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// inParent does something that os.Root cannot.
func (u *unloading) inParent(name string, do func(dir int, base string) error) error {
	f, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer f.Close()
	return do(int(f.Fd()), path.Base(name))
}

// content writes a file, with its holes.
func (u *unloading) content(ctx context.Context, name string, e entry) error {
	list, err := u.i.extents(e.inode)
	if err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, x := range list {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if x.length = min(x.length, e.Size()-x.from); err != nil || x.length <= 0 { // space may be reserved behind the end
			break
		}
		_, err = io.Copy(io.NewOffsetWriter(f, x.from), bufio.NewReaderSize(io.NewSectionReader(u.i.file, x.at, x.length), 1<<20))
		if err != nil {
			break
		}
	}
	if err == nil {
		err = f.Truncate(e.Size())
	}
	return errors.Join(err, f.Close())
}

// syncFileSystem writes all of a directory's file system to its disk: one call
// in place of one for each file.
func syncFileSystem(dir string) error {
	f, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
