package unpack

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// meta is what a directory gets at the very end.
type meta struct {
	mode uint32
	time time.Time
}

func metaOf(h *tar.Header) meta { return meta{mode: uint32(h.Mode & 0o7777), time: h.ModTime} }

// dirs are the directories of a tree, by canonical path: relative to the root,
// without any link, "" for the root itself. Directories stay open while there
// are few, because layers come in the order of directories.
type dirs struct {
	path string
	open map[string]int
	meta map[string]meta
}

const maxOpen = 200

func openDirs(root string) (*dirs, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	return &dirs{path: root, open: map[string]int{"": fd}, meta: map[string]meta{}}, nil
}

func (d *dirs) root() int { return d.open[""] }

func (d *dirs) close() {
	d.forget()
	unix.Close(d.root())
	delete(d.open, "")
}

// forget closes all but the root: when there are too many, or when something
// that may be one of them was replaced.
func (d *dirs) forget() {
	for p, fd := range d.open {
		if p != "" {
			unix.Close(fd)
			delete(d.open, p)
		}
	}
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// at opens the directory of a canonical path, by the directory above where
// that is known. It follows no link.
func (d *dirs) at(canon string, above int, base string) (int, error) {
	if canon == "." {
		canon = ""
	}
	if fd, ok := d.open[canon]; ok {
		return fd, nil
	}
	if above >= 0 {
		fd, err := openDir(above, base)
		if err != nil {
			return -1, err
		}
		d.open[canon] = fd
		return fd, nil
	}
	fd := d.root()
	at := ""
	for _, name := range strings.Split(canon, "/") {
		at = join(at, name)
		next, err := d.at(at, fd, name)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

func openDir(above int, base string) (int, error) {
	for {
		fd, err := unix.Openat(above, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// walk finds the directory that a path of a layer means, as if the tree were
// the whole file system: links lead no further than its root. With made,
// missing directories are made, and reported. The descriptor is good until the
// next call.
func (d *dirs) walk(p string, made func(canon string) error) (string, int, error) {
	p = strings.Trim(p, "/")
	if fd, ok := d.open[p]; ok {
		return p, fd, nil
	}
	if len(d.open) > maxOpen {
		d.forget()
	}
	at, fd, links := "", d.root(), 0
	rest := strings.Split(p, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			if at == "." {
				at = ""
			}
			up, err := d.at(at, -1, "")
			if err != nil {
				return "", -1, err
			}
			fd = up
			continue
		}
		own := join(at, name)
		next, err := d.at(own, fd, name)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			target, linkErr := readlink(fd, name)
			if linkErr == nil {
				if links++; links > maxLinks || len(target)+len(rest) > maxPath {
					return "", -1, fmt.Errorf("too many links on the way: %w", unix.ELOOP)
				}
				if strings.HasPrefix(target, "/") {
					at, fd = "", d.root()
				}
				rest = append(strings.Split(target, "/"), rest...)
				continue
			}
			if made == nil {
				return "", -1, err
			}
			// A file where this layer has a directory.
			if err := unix.Unlinkat(fd, name, 0); err != nil {
				return "", -1, err
			}
			next, err = d.make(own, fd, name, made)
		} else if errors.Is(err, unix.ENOENT) && made != nil {
			next, err = d.make(own, fd, name, made)
		}
		if err != nil {
			return "", -1, err
		}
		at, fd = own, next
	}
	return at, fd, nil
}

func (d *dirs) make(own string, fd int, name string, made func(string) error) (int, error) {
	if strings.Count(own, "/") > maxDepth {
		return -1, errors.New("its directory is too deep")
	}
	if err := unix.Mkdirat(fd, name, 0o700); err != nil {
		return -1, err
	}
	if err := made(own); err != nil {
		return -1, err
	}
	return d.at(own, fd, name)
}

func readlink(fd int, name string) (string, error) {
	buf := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(fd, name, buf)
	return string(buf[:max(n, 0)]), err
}

// remove removes whatever has a name. What is gone is success.
func (d *dirs) remove(fd int, base, own string) error {
	err := unix.Unlinkat(fd, base, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err := fsutil.RemoveAll(filepath.Join(d.path, own)); err != nil {
		return err
	}
	for p, fd := range d.open {
		if p == own || strings.HasPrefix(p, own+"/") {
			unix.Close(fd)
			delete(d.open, p)
		}
	}
	return nil
}

func readNames(fd int) ([]string, error) {
	again, err := openDir(fd, ".")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(again), "directory")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// Finish gives directories their modes and times, those inside first: an
// ordinary user could not reach them any more after the ones above.
func (u *Unpacker) Finish() error {
	paths := make([]string, 0, len(u.dirs.meta))
	for p := range u.dirs.meta {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(b, a) })
	for _, p := range paths {
		if len(u.dirs.open) > maxOpen {
			u.dirs.forget()
		}
		fd, err := u.dirs.at(p, -1, "")
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue // a later layer removed or replaced it
		}
		if err != nil {
			return u.explain(p, err)
		}
		m := u.dirs.meta[p]
		if err := unix.Fchmod(fd, m.mode); err != nil {
			return u.explain(p, err)
		}
		if err := futimens(fd, m.time); err != nil {
			return u.explain(p, err)
		}
	}
	return nil
}
