package treesync

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Outputs are those of a job, in a tree that it has filled: what leaves the tree must not
// depend on what stays there. A match that is a link stands for what it leads to inside
// the tree. Below a match a link stays a link where its target travels too, or where
// nothing is there; otherwise what it leads to comes in its place.
type Outputs struct {
	In *fsutil.Root
	// Stage takes what cannot travel as it is in the tree: directories of second names
	// for its files.
	Stage *fsutil.Root
	// Left is notified of what stays behind, and why.
	Left func(name string, why Why)
}

// Why is a reason for which something stays behind.
type Why string

// Reasons, as they stand in results.
const (
	WhyOutside    Why = "outside"    // its link leads out of the tree
	WhyLoop       Why = "loop"       // its links lead in a circle
	WhyNothing    Why = "nothing"    // its link leads to nothing
	WhyUnreadable Why = "unreadable" // its owner may not read it
	WhySpecial    Why = "special"    // it is a FIFO, a socket or a device
	WhyFailed     Why = "failed"     // its host could not read it
)

// Prepare gives the name of what travels for a match: in the tree or, where staged, in
// Stage, where it is as. "": nothing does, and Left knows why.
func (o Outputs) Prepare(ctx context.Context, match, as string) (name string, staged bool, err error) {
	target, err := o.In.Resolve(match)
	if err != nil {
		return "", false, o.leave(match, err)
	}
	s := stager{ctx: ctx, Outputs: o}
	defer s.close()
	unusual, err := s.unusual(target)
	if err != nil || !unusual {
		return target, false, err
	}
	if err := s.bring(target, as); err != nil {
		return "", false, err
	}
	there, err := o.Stage.Exists(as)
	if !there {
		return "", false, err
	}
	return as, true, nil
}

// leave reports what stays behind for a reason that is known; another error is returned.
func (o Outputs) leave(name string, err error) error {
	switch {
	case errors.Is(err, fsutil.ErrOutside):
		o.Left(name, WhyOutside)
	case errors.Is(err, unix.ELOOP):
		o.Left(name, WhyLoop)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		o.Left(name, WhyNothing)
	case errors.Is(err, fs.ErrPermission):
		o.Left(name, WhyUnreadable)
	default:
		return err
	}
	return nil
}

// stager makes the copy of one match.
type stager struct {
	Outputs
	ctx   context.Context
	bases []base
}

// base is a directory or file of the tree that comes whole to a place.
type base struct {
	name, as string
	root     *fsutil.Root // the directory, from which no link leads out; nil: it is a file
}

// newBase gives a subtree that comes to a place.
func (s *stager) newBase(name, as string) (base, error) {
	b := base{name: name, as: as}
	var err error
	if b.root, err = s.In.Sub(name); errors.Is(err, unix.ENOTDIR) {
		err = nil
	}
	if b.root != nil {
		b.root.Seen = ""
	}
	return b, err
}

func (s *stager) close() {
	for _, b := range s.bases {
		if b.root != nil {
			b.root.Close()
		}
	}
}

// unusual reports whether something in a subtree cannot travel as it is.
func (s *stager) unusual(target string) (bool, error) {
	b, err := s.newBase(target, target)
	if err != nil {
		return false, err
	}
	if b.root != nil {
		defer b.root.Close()
	}
	unusual := false
	err = s.In.Walk(target, func(name string, info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			unusual = true
		case info.Mode()&fs.ModeSymlink != 0:
			unusual = !b.keeps(name, name)
		case !info.IsDir() && !info.Mode().IsRegular():
			unusual = true
		}
		if unusual {
			return fs.SkipAll
		}
		return s.ctx.Err()
	})
	return unusual, err
}

// link gives the text that a link has at its new place. False: it cannot stay a link. It
// stands for target then or, where that is "", stays behind.
func (s *stager) link(name, as, text string) (kept, target string, ok bool) {
	for _, b := range s.bases {
		if b.keeps(name, as) {
			return text, "", true
		}
	}
	target, err := s.In.Resolve(name)
	if err != nil {
		return "", "", false
	}
	for _, b := range s.bases {
		if b.holds(target) {
			to, err := filepath.Rel(path.Dir(as), b.place(target))
			return to, target, err == nil
		}
	}
	return "", target, false
}

// keeps reports whether a link means at its new place what it means in the tree: it never
// leads out of the subtree, or leads to nothing there. Whatever a link to nothing is good
// for, it is as good at its new place.
func (b base) keeps(name, as string) bool {
	if b.root == nil || b.place(name) != as {
		return false
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(name, b.name), "/")
	if b.name == "." {
		rel = name
	}
	_, err := b.root.Resolve(rel)
	return err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// holds reports whether a name is in the subtree.
func (b base) holds(name string) bool {
	return filepath.IsLocal(name) && (b.name == "." || name == b.name || strings.HasPrefix(name, b.name+"/"))
}

// place gives the place of a name that the subtree holds, else "".
func (b base) place(name string) string {
	if !b.holds(name) {
		return ""
	}
	rel := name
	if b.name != "." {
		rel = strings.TrimPrefix(name, b.name)
	}
	return path.Join(b.as, rel)
}

// bring stages a subtree as a whole.
func (s *stager) bring(name, as string) error {
	b, err := s.newBase(name, as)
	if err != nil {
		return err
	}
	s.bases = append(s.bases, b)
	return s.entry(name, as)
}

func (s *stager) entry(name, as string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	info, err := s.In.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return s.leave(name, err)
	case info.IsDir():
		return s.dir(name, as)
	case info.Mode()&fs.ModeSymlink != 0:
		return s.symlink(name, as)
	case info.Mode().IsRegular():
		return s.file(name, as)
	}
	s.Left(name, WhySpecial)
	return nil
}

func (s *stager) symlink(name, as string) error {
	text, err := s.In.Readlink(name)
	if err != nil {
		return err
	}
	kept, target, ok := s.link(name, as, text)
	switch {
	case ok:
		return s.Stage.Symlink(kept, as)
	case target != "":
		return s.bring(target, as)
	}
	_, err = s.In.Resolve(name)
	return s.leave(name, err)
}

func (s *stager) dir(name, as string) error {
	if err := s.Stage.Mkdir(as, 0o700); err != nil {
		return err
	}
	from, err := s.In.OpenDir(name)
	if err != nil {
		return s.leave(name, err)
	}
	defer from.Close()
	names, err := from.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := s.entry(path.Join(name, n), path.Join(as, n)); err != nil {
			return err
		}
	}
	to, err := s.Stage.OpenDir(as)
	if err != nil {
		return err
	}
	defer to.Close()
	return copyMeta(int(from.Fd()), int(to.Fd()))
}

// copyMeta gives a directory the attributes of another.
func copyMeta(from, to int) error {
	var st unix.Stat_t
	if err := unix.Fstat(from, &st); err != nil {
		return err
	}
	xattrs, err := readXattrs(from)
	if err != nil {
		return err
	}
	return setMeta(to, &meta{xattrs: xattrs, mtime: st.Mtim.Nano()}, st.Mode&0o7777)
}

// file gives a file a second name, or copies it where it cannot have one.
func (s *stager) file(name, as string) error {
	err := s.In.Link(name, s.Stage, as)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from, err := s.In.OpenDir(path.Dir(name))
	if err != nil {
		return err
	}
	defer from.Close()
	t := &tree{ctx: s.ctx, root: s.Stage.Path(as), links: map[uint64]linkSource{}}
	defer t.close()
	k := &walker{ctx: s.ctx, to: t, inodes: map[inode]uint64{}}
	if err := t.top(""); err != nil {
		return err
	}
	if err := k.entry(int(from.Fd()), path.Base(name), name); err != nil {
		return err
	}
	return t.commit()
}
