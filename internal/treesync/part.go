package treesync

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// part is one file or directory on its way to its place. It is made beside
// that place under a name derived from it, and held by a lock on itself: so
// the next process knows what a killed process left, and clears it away.
type part struct {
	path string // where it shall go
	dir  int    // the directory that holds it
	base string
	name string // its temporary name; empty until claimed
	lock int    // a descriptor that holds the lock, or -1
	gone bool   // committed
	one  bool   // the only part of its stream
}

// newPart opens the directory of root/rel, making it if it is missing. Below
// root no symbolic link is followed: rel comes from the stream.
func newPart(root, rel string) (*part, error) {
	p := &part{path: filepath.Join(root, rel), base: filepath.Base(root), lock: -1}
	var err error
	if rel == "" {
		p.one = true
		if err := fsutil.MkdirAll(filepath.Dir(root), 0o777); err != nil {
			return nil, err
		}
		p.dir, err = openDir(unix.AT_FDCWD, filepath.Dir(root), 0)
		return p, err
	}
	if p.dir, err = openDir(unix.AT_FDCWD, root, 0); err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	elements := strings.Split(rel, "/")
	for i, e := range elements {
		if err = checkName(e); err != nil {
			break
		}
		if i == len(elements)-1 {
			p.base = e
			return p, nil
		}
		if err = unix.Mkdirat(p.dir, e, 0o777); err != nil && !errors.Is(err, unix.EEXIST) {
			break
		}
		var next int
		if next, err = openDir(p.dir, e, unix.O_NOFOLLOW); err != nil {
			break
		}
		_ = unix.Close(p.dir)
		p.dir = next
	}
	_ = unix.Close(p.dir)
	return nil, fmt.Errorf("open the directory of %s: %w", p.path, err)
}

// claim chooses the part's name, and removes what a killed process left.
func (p *part) claim() (string, error) {
	restore(p.dir, filepath.Join("/", p.base))
	for i := range 100 {
		name := partName(p.base, i)
		if held, err := p.held(name); err != nil {
			return "", err
		} else if held {
			continue
		}
		if err := fsutil.RemoveAt(p.dir, name); err != nil {
			continue // another's
		}
		p.name = name
		return name, nil
	}
	return "", fmt.Errorf("%s is being replaced by too many at once", p.path)
}

func partName(base string, i int) string {
	// Bytes may be cut off the middle of a rune: names are bytes to Linux.
	base = base[:min(len(base), unix.NAME_MAX-20)]
	if i == 0 {
		return "." + base + ".bee-part"
	}
	return fmt.Sprintf(".%s.bee-part%d", base, i)
}

// held reports whether a live process works on name.
func (p *part) held(name string) (bool, error) {
	fd, err := unix.Openat(p.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EACCES):
		return false, nil
	case err != nil:
		return false, err
	}
	defer unix.Close(fd)
	return fsutil.TryFlock(fd, unix.LOCK_SH) != nil, nil // by NFS, one who only reads cannot ask for more
}

// hold locks the part for as long as this process works on it.
func (p *part) hold(fd int) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		// A file system without locks only loses the protection against a
		// second receiver of the same path.
		_ = fsutil.TryFlock(dup, unix.LOCK_EX)
		p.lock = dup
	}
}

// commit renames the part to its place; what was there is removed.
func (p *part) commit() error {
	if p.name == "" {
		if p.one {
			return unix.ENOENT // it vanished while it was sent
		}
		return nil
	}
	err := unix.Renameat(p.dir, p.name, p.dir, p.base)
	if err == nil {
		p.gone = true
		return nil
	}
	if !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	// A directory with content, or of another type, has to change places.
	err = unix.Renameat2(p.dir, p.name, p.dir, p.base, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // NFS
		return p.replace()
	}
	if err != nil {
		return err
	}
	return fsutil.RemoveAt(p.dir, p.name)
}

// replace puts the part in its place in two steps, where there is no way to do so in one.
// What was there has another name in between, never none: adopt puts it back after a
// crash.
func (p *part) replace() error {
	old := filepath.Base(replaced(p.path))
	if err := fsutil.RemoveAt(p.dir, old); err != nil {
		return err
	}
	if err := unix.Renameat(p.dir, p.base, p.dir, old); err != nil {
		return err
	}
	if err := unix.Renameat(p.dir, p.name, p.dir, p.base); err != nil {
		return errors.Join(err, unix.Renameat(p.dir, old, p.dir, p.base))
	}
	p.gone = true
	return fsutil.RemoveAt(p.dir, old)
}

// replaced is the name that what was at path has while something takes its place.
func replaced(path string) string { return beside(path, "old") }

// restore puts back what a process that was killed has moved aside.
func restore(dir int, path string) {
	if _, err := lstat(dir, filepath.Base(path)); errors.Is(err, unix.ENOENT) {
		_ = unix.Renameat(dir, filepath.Base(replaced(path)), dir, filepath.Base(path))
	}
}

// partial is where what has arrived of path is kept when its stream breaks.
func partial(path string) string { return beside(path, "partial") }

// beside is the name of something of ours beside path.
func beside(path, what string) string {
	base := filepath.Base(path)
	return filepath.Join(filepath.Dir(path), "."+base[:min(len(base), unix.NAME_MAX-20)]+".bee-"+what)
}

// keep leaves the part at another place. What it has already may be more than
// what was kept the time before, of which it is made.
func (p *part) keep(at string) {
	if p.name == "" || fsutil.RemoveAll(at) != nil {
		return
	}
	p.gone = unix.Renameat(p.dir, p.name, unix.AT_FDCWD, at) == nil
}

// adopt keeps what a process has received of path that was killed.
func adopt(path string) {
	dir, err := openDir(unix.AT_FDCWD, filepath.Dir(path), 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	restore(dir, path)
	p := &part{path: path, dir: dir, base: filepath.Base(path), name: partName(filepath.Base(path), 0), lock: -1}
	if _, err := lstat(dir, p.name); err != nil {
		return
	}
	if held, err := p.held(p.name); err == nil && !held {
		p.keep(partial(path))
	}
}

func (p *part) close() {
	if p.name != "" && !p.gone {
		_ = fsutil.RemoveAt(p.dir, p.name)
	}
	if p.lock >= 0 {
		_ = unix.Close(p.lock)
	}
	_ = unix.Close(p.dir)
}
