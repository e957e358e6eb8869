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
	switch _, err := v.Lookup(ctx, q.Ino, q.Name); {
	case err == nil:
		return v.made(w, syscall.EEXIST)
	case !errors.Is(err, syscall.ENOENT):
		return calls.Attr{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dir(q.Ino)
	if err == nil {
		err = v.tree.Check(path.Join(v.state.Path(dir), q.Name))
	}
	if err != nil {
		return calls.Attr{}, err
	}
	if v.state.Child(dir, q.Name) != nil {
		return calls.Attr{}, syscall.EEXIST
	}
	mode, ino := q.Mode&0o7777, v.state.Next()
	_, err = v.change(meta.Change{
		Do: meta.DoCreate, Ino: ino, Dir: q.Ino, Name: q.Name, Kind: kind, Mode: &mode, UID: q.UID, GID: q.GID, Stays: v.stays(dir, q.Name),
		Target: string(q.Data), Time: now(), Client: w.client, Request: w.request,
	})
	if err != nil {
		return calls.Attr{}, err
	}
	v.report()
	return attr(v.state.Node(ino)), nil
}

// made gives what a request has made before its client lost the answer, else the error.
func (v *Volume) made(w who, otherwise error) (calls.Attr, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ino, was := v.state.Answered(w.client, w.request)
	if n := v.state.Node(ino); was && n != nil {
		return attr(n), nil
	}
	if was {
		return calls.Attr{}, nil
	}
	return calls.Attr{}, otherwise
}

// Remove removes a name.
func (v *Volume) Remove(ctx context.Context, w who, q *calls.Request) error {
	a, err := v.Lookup(ctx, q.Ino, q.Name)
	if err != nil {
		_, err = v.made(w, err)
		return err
	}
	directory := q.Flags&calls.Directory != 0
	if directory {
		if err := v.vacant(ctx, a.Ino); err != nil {
			return err
		}
	} else if err := v.pinned(ctx, a.Ino); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dir(q.Ino)
	if err != nil {
		return err
	}
	n := v.state.Child(dir, q.Name)
	switch {
	case n == nil:
		return syscall.ENOENT
	case directory && n.Kind != remote.Dir:
		return syscall.ENOTDIR
	case directory && !v.state.Empty(n):
		return syscall.ENOTEMPTY
	case !directory && n.Kind == remote.Dir:
		return syscall.EISDIR
	}
	if err := v.writable(n); err != nil {
		return err
	}
	_, err = v.change(meta.Change{Do: meta.DoRemove, Ino: n.Ino, Time: now(), Client: w.client, Request: w.request})
	v.forget(n)
	v.report()
	return err
}

// vacant looks whether a directory is empty, on the remote too.
func (v *Volume) vacant(ctx context.Context, ino uint64) error {
	list, err := v.List(ctx, ino)
	if err == nil && len(list) > 0 {
		err = syscall.ENOTEMPTY
	}
	return err
}

// pinned opens a file on the remote that is open here, before its name there goes. Where that
// does not keep the file, its content is fetched.
func (v *Volume) pinned(ctx context.Context, ino uint64) error {
	v.mu.Lock()
	n, f := v.state.Node(ino), v.files[ino]
	needed := n != nil && f != nil && f.count > 0 && n.Kind == remote.File && !n.Local
	v.mu.Unlock()
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
	from, err := v.Lookup(ctx, q.Ino, q.Name)
	if err != nil {
		_, err = v.made(w, err)
		return err
	}
	if v.answered(w) {
		return nil
	}
	switch to, err := v.Lookup(ctx, q.ToDir, q.ToName); {
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
		if err := v.vacant(ctx, to.Ino); err != nil {
			return err
		}
	case from.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return syscall.ENOTDIR
	default:
		if err := v.pinned(ctx, to.Ino); err != nil {
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dir(q.Ino)
	if err != nil {
		return err
	}
	toDir, err := v.dir(q.ToDir)
	if err != nil {
		return err
	}
	n, old := v.state.Child(dir, q.Name), v.state.Child(toDir, q.ToName)
	switch {
	case n == nil:
		return syscall.ENOENT
	case n == old:
		return nil
	case old != nil && q.Flags&calls.Exclusive != 0:
		return syscall.EEXIST
	case old != nil && old.Kind == remote.Dir && !v.state.Empty(old):
		return syscall.ENOTEMPTY
	case old != nil && (old.Kind == remote.Dir) != (n.Kind == remote.Dir):
		return syscall.ENOTDIR
	}
	for up := toDir; up.Ino != meta.Root; up = v.state.Node(up.Parent) {
		if up == n {
			return syscall.EINVAL
		}
	}
	if err := v.fits(n, path.Join(v.state.Path(toDir), q.ToName)); err != nil {
		return err
	}
	for _, one := range []*meta.Node{n, old} {
		if one == nil {
			continue
		}
		if err := v.writable(one); err != nil {
			return err
		}
	}
	if v.stays(toDir, q.ToName) != n.Stays || old != nil && old.Stays != n.Stays {
		return syscall.EXDEV // as between two file systems: programs copy
	}
	if err := v.put(n); err != nil { // a name that others see is that of a whole file
		return err
	}
	_, err = v.change(meta.Change{
		Do: meta.DoRename, Ino: n.Ino, ToDir: q.ToDir, ToName: q.ToName, Time: now(), Client: w.client, Request: w.request,
	})
	if old != nil {
		v.forget(old)
	}
	v.report()
	return err
}

// fits reports whether the remote can have a node, and what is in it, at a path. Callers hold
// the lock.
func (v *Volume) fits(n *meta.Node, to string) error {
	if err := v.tree.Check(to); err != nil || n.Kind != remote.Dir {
		return err
	}
	for _, child := range v.state.Children(n) {
		if err := v.fits(child, path.Join(to, child.Name)); err != nil {
			return err
		}
	}
	return nil
}

// answered reports whether a request was carried out before its client lost the answer.
func (v *Volume) answered(w who) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, was := v.state.Answered(w.client, w.request)
	return was
}
