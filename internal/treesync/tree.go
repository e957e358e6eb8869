package treesync

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// tree makes files and directories below root. Everything is made by the
// descriptor of the directory above and must not exist before, so a hostile
// stream can neither leave its part nor write through a link of its own.
type tree struct {
	ctx       context.Context
	root      string
	parts     []*part
	stack     []frame
	links     map[uint64]linkSource
	done      int64
	progress  func(int64)
	journal   *journal // nil: none is kept
	fileMaker fileMaker
}

// frame is a directory being filled. Its attributes are set last, because
// filling it changes its time and may need permissions it shall not have.
type frame struct {
	fd   int
	meta *meta
	path string          // from the part's parent
	kept *sync.WaitGroup // files that are still being copied into it
	from int             // the directory of the earlier copy that they are of, or -1
}

// close waits for what is being copied, too.
func (f *frame) close() {
	f.kept.Wait()
	closeDir(f.from)
	closeDir(f.fd)
}

type linkSource struct {
	part *part
	path string // from the part's parent
}

func (t *tree) top(rel string) error {
	if len(t.parts) > 0 && t.last().name == "" {
		// Its only entry vanished while it was sent.
		_ = unix.Close(t.last().dir)
		t.parts = t.parts[:len(t.parts)-1]
	}
	p, err := newPart(t.root, rel)
	if err != nil {
		return err
	}
	t.parts = append(t.parts, p)
	return nil
}

func (t *tree) last() *part { return t.parts[len(t.parts)-1] }

// place gives the directory and the name under which an entry is to be made.
func (t *tree) place(m *meta) (dir int, name, path string, err error) {
	if n := len(t.stack); n > 0 {
		if err := checkName(m.name); err != nil {
			return 0, "", "", err
		}
		f := t.stack[n-1]
		return f.fd, m.name, f.path + "/" + m.name, nil
	}
	if len(t.parts) == 0 || t.last().name != "" {
		return 0, "", "", errRecord
	}
	p := t.last()
	name, err = p.claim()
	return p.dir, name, name, err
}

func (t *tree) enter(m *meta) error {
	dir, name, path, err := t.place(m)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return t.wrap("mkdir", path, err)
	}
	fd, err := openDir(dir, name, unix.O_NOFOLLOW)
	if err != nil {
		return t.wrap("open", path, err)
	}
	if len(t.stack) == 0 {
		t.last().hold(fd)
	}
	t.stack = append(t.stack, frame{fd, m, path, &sync.WaitGroup{}, -1})
	return nil
}

func (t *tree) leave() error {
	f := t.stack[len(t.stack)-1]
	t.stack = t.stack[:len(t.stack)-1]
	defer f.close()
	f.kept.Wait()
	return t.wrap("set attributes of", f.path, setMeta(f.fd, f.meta, f.meta.mode))
}

// create makes an empty file for m, to be filled and then given to finish.
func (t *tree) create(m *meta) (*file, error) {
	dir, name, path, err := t.place(m)
	if err != nil {
		return nil, err
	}
	mode := uint32(0o600)
	if len(t.stack) > 0 { // nobody else gets as far as that yet
		mode |= m.mode & 0o777
	}
	fd, err := createAt(dir, name, mode)
	if err != nil {
		return nil, t.wrap("create", path, err)
	}
	if len(t.stack) == 0 {
		t.last().hold(fd)
	}
	if m.link != 0 {
		t.links[m.link] = linkSource{t.last(), path}
	}
	return &file{fd: fd, name: path}, nil
}

// finish closes a file that create made, with its size and attributes set, and reports
// what it is then.
func (t *tree) finish(f *file, m *meta, size int64) (*unix.Stat_t, error) {
	if f.end != size {
		if err := unix.Ftruncate(f.fd, size); err != nil {
			f.close()
			return nil, t.wrap("set size of", f.name, err)
		}
	}
	st, err := seal(f.fd, m)
	return st, t.wrap("finish", f.name, err)
}

// seal completes a file that was written, and closes it: a file system of another
// machine may say only then that it had no space for it.
func seal(fd int, m *meta) (*unix.Stat_t, error) {
	st, err := complete(fd, m)
	return st, errors.Join(err, unix.Close(fd))
}

// createAt makes an empty file with the mode that it is to have, so that complete rarely
// has to set another.
func createAt(dir int, name string, mode uint32) (int, error) {
	return unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
}

// other makes whatever is neither a directory nor a plain file.
func (t *tree) other(m *meta) error {
	dir, name, path, err := t.place(m)
	if err != nil {
		return err
	}
	switch m.kind {
	case kindSymlink:
		err = unix.Symlinkat(m.target, dir, name)
	case kindFifo:
		err = unix.Mknodat(dir, name, unix.S_IFIFO|m.mode&0o777, 0)
	case kindSocket:
		err = unix.Mknodat(dir, name, unix.S_IFSOCK|m.mode&0o777, 0)
	case kindHard:
		from, ok := t.links[m.link]
		if !ok {
			return errRecord
		}
		return t.wrap("link", path, unix.Linkat(from.part.dir, from.path, dir, name, 0))
	default:
		return errRecord
	}
	if err != nil {
		return t.wrap("create", path, err)
	}
	when := unix.NsecToTimespec(m.mtime)
	return t.wrap("set time of", path, unix.UtimesNanoAt(dir, name, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW))
}

// setMeta sets the attributes of a directory.
func setMeta(fd int, m *meta, mode uint32) error {
	if err := setXattrs(fd, m); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	return setTime(fd, m)
}

// complete sets the attributes of a file, its mode if it was not made with that, and reports
// what it is then.
func complete(fd int, m *meta) (*unix.Stat_t, error) {
	if err := errors.Join(setXattrs(fd, m), setTime(fd, m)); err != nil {
		return nil, err
	}
	st, mode := &unix.Stat_t{}, m.mode&0o1777
	err := unix.Fstat(fd, st)
	if err == nil && st.Mode&0o7777 != mode {
		err = errors.Join(unix.Fchmod(fd, mode), unix.Fstat(fd, st))
	}
	return st, err
}

func setTime(fd int, m *meta) error { return futimens(fd, unix.NsecToTimespec(m.mtime)) }

func setXattrs(fd int, m *meta) error {
	for _, x := range m.xattrs {
		// A file system without attributes (tmpfs of old kernels, NFS) still
		// takes the file.
		if err := unix.Fsetxattr(fd, x.name, []byte(x.value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	return nil
}

// wrap names the place as people know it, not by its temporary name.
func (t *tree) wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, filepath.Join(t.last().path, inside(path)), err)
}

// inside gives a path from the part, of one from its parent.
func inside(path string) string {
	_, inner, _ := strings.Cut(path, "/")
	return inner
}

// commit puts every part in its place.
func (t *tree) commit() error {
	for _, p := range t.parts {
		if err := p.commit(); err != nil {
			return fmt.Errorf("replace %s: %w", p.path, err)
		}
	}
	return nil
}

// close removes the parts that were not committed.
func (t *tree) close() {
	core.BestEffort(t.settle()) // it is given up
	t.journal.close()
	for _, f := range t.stack {
		f.close()
	}
	for _, p := range t.parts {
		p.close()
	}
}
