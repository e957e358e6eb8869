package burst

import (
	"context"
	"errors"
	"path"
	"syscall"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// who is whose request a change answers.
type who struct{ client, request uint64 }

// Make makes a file, a directory or a link, of a name that is free.
func (v *Volume) Make(ctx context.Context, w who, kind remote.Kind, q *calls.Request) (calls.Attr, error) {
	if remote.Hidden(q.Name, q.Ino == meta.Root) {
		return calls.Attr{}, syscall.EINVAL
	}
	if kind == remote.Link && !utf8.Valid(q.Data) {
		return calls.Attr{}, syscall.EILSEQ
	}
	if a, was, err := v.journal.made(w); was {
		return a, err
	}
	switch _, err := v.names.Lookup(ctx, q.Ino, q.Name); {
	case err == nil:
		return calls.Attr{}, syscall.EEXIST
	case !errors.Is(err, syscall.ENOENT):
		return calls.Attr{}, err
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	dir, err := v.journal.dir(q.Ino)
	if err == nil {
		err = v.tree.Check(path.Join(v.journal.state.Path(dir), q.Name))
	}
	if err != nil {
		return calls.Attr{}, err
	}
	if v.journal.state.Child(dir, q.Name) != nil {
		return calls.Attr{}, syscall.EEXIST
	}
	mode, ino := q.Mode&0o7777, v.journal.state.Next()
	_, err = v.journal.change(meta.Change{
		Do: meta.DoCreate, Ino: ino, Dir: q.Ino, Name: q.Name, Kind: kind, Mode: &mode, UID: q.UID, GID: q.GID, Stays: v.rules.stays(dir, q.Name),
		Target: string(q.Data), Time: now(), Client: w.client, Request: w.request,
	})
	if err != nil {
		return calls.Attr{}, err
	}
	v.journal.report()
	return attr(v.journal.state.Node(ino)), nil
}

// Remove removes a name.
func (v *Volume) Remove(ctx context.Context, w who, q *calls.Request) error {
	if v.journal.answered(w) { // the name may be another file's by now
		return nil
	}
	a, err := v.names.Lookup(ctx, q.Ino, q.Name)
	if err != nil {
		return err
	}
	directory := q.Flags&calls.Directory != 0
	if directory {
		if err := v.names.vacant(ctx, a.Ino); err != nil {
			return err
		}
	} else if err := v.pinned(ctx, a.Ino); err != nil {
		return err
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	dir, err := v.journal.dir(q.Ino)
	if err != nil {
		return err
	}
	n := v.journal.state.Child(dir, q.Name)
	switch {
	case n == nil:
		return syscall.ENOENT
	case directory && n.Kind != remote.Dir:
		return syscall.ENOTDIR
	case directory && !v.journal.state.Empty(n):
		return syscall.ENOTEMPTY
	case !directory && n.Kind == remote.Dir:
		return syscall.EISDIR
	}
	if err := v.rules.writable(n); err != nil {
		return err
	}
	_, err = v.journal.change(meta.Change{Do: meta.DoRemove, Ino: n.Ino, Time: now(), Client: w.client, Request: w.request})
	v.journal.forget(n)
	readsOf(v).forget(a.Ino)
	v.journal.report()
	return err
}

// pinned opens a file on the remote that is open here, before its name there goes. Where that
// does not keep the file, its content is fetched.
func (v *Volume) pinned(ctx context.Context, ino uint64) error {
	v.journal.mu.Lock()
	n, f := v.journal.state.Node(ino), v.journal.files[ino]
	needed := n != nil && f != nil && f.count > 0 && n.Kind == remote.File && !n.Local
	v.journal.mu.Unlock()
	if !needed {
		return nil
	}
	if !v.tree.Traits().Keeps {
		return v.fetch(ctx, ino, 0)
	}
	_, err := v.source(ctx, ino)
	return err
}

// Rename moves a name.
func (v *Volume) Rename(ctx context.Context, w who, q *calls.Request) error {
	if remote.Hidden(q.ToName, q.ToDir == meta.Root) {
		return syscall.EINVAL
	}
	if v.journal.answered(w) {
		return nil
	}
	from, err := v.names.Lookup(ctx, q.Ino, q.Name)
	if err != nil {
		return err
	}
	switch to, err := v.names.Lookup(ctx, q.ToDir, q.ToName); {
	case errors.Is(err, syscall.ENOENT):
	case err != nil:
		return err
	case to.Ino == from.Ino:
		return nil
	case q.Flags&calls.Exclusive != 0:
		return syscall.EEXIST
	case to.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		if from.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			return syscall.EISDIR
		}
		if err := v.names.vacant(ctx, to.Ino); err != nil {
			return err
		}
	case from.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return syscall.ENOTDIR
	default:
		if err := v.pinned(ctx, to.Ino); err != nil {
			return err
		}
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	dir, err := v.journal.dir(q.Ino)
	if err != nil {
		return err
	}
	toDir, err := v.journal.dir(q.ToDir)
	if err != nil {
		return err
	}
	n, old := v.journal.state.Child(dir, q.Name), v.journal.state.Child(toDir, q.ToName)
	switch {
	case n == nil:
		return syscall.ENOENT
	case n == old:
		return nil
	case old != nil && q.Flags&calls.Exclusive != 0:
		return syscall.EEXIST
	case old != nil && old.Kind == remote.Dir && !v.journal.state.Empty(old):
		return syscall.ENOTEMPTY
	case old != nil && (old.Kind == remote.Dir) != (n.Kind == remote.Dir):
		return syscall.ENOTDIR
	}
	for up := toDir; up.Ino != meta.Root; up = v.journal.state.Node(up.Parent) {
		if up == n {
			return syscall.EINVAL
		}
	}
	if err := v.fits(n, path.Join(v.journal.state.Path(toDir), q.ToName)); err != nil {
		return err
	}
	for _, one := range []*meta.Node{n, old} {
		if one == nil {
			continue
		}
		if err := v.rules.writable(one); err != nil {
			return err
		}
	}
	if v.rules.stays(toDir, q.ToName) != n.Stays || old != nil && old.Stays != n.Stays {
		return syscall.EXDEV // as between two file systems: programs copy
	}
	if err := v.journal.put(n); err != nil { // a name that others see is that of a whole file
		return err
	}
	_, err = v.journal.change(meta.Change{
		Do: meta.DoRename, Ino: n.Ino, ToDir: q.ToDir, ToName: q.ToName, Time: now(), Client: w.client, Request: w.request,
	})
	if old != nil {
		v.journal.forget(old)
		readsOf(v).forget(old.Ino)
	}
	v.journal.report()
	return err
}

// fits reports whether the remote can have a node, and what is in it, at a path. Callers hold
// the lock.
func (v *Volume) fits(n *meta.Node, to string) error {
	if err := v.tree.Check(to); err != nil || n.Kind != remote.Dir {
		return err
	}
	for _, child := range v.journal.state.Children(n) {
		if err := v.fits(child, path.Join(to, child.Name)); err != nil {
			return err
		}
	}
	return nil
}
