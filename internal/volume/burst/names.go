package burst

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

func attr(n *meta.Node) calls.Attr {
	a := calls.Attr{Ino: n.Ino, Mode: n.Mode, UID: n.UID, GID: n.GID, Size: n.Size, Mtime: n.Mtime, Ctime: n.Ctime}
	if n.Linked() {
		a.Nlink = 1
	}
	switch n.Kind {
	case remote.Dir:
		a.Mode |= syscall.S_IFDIR
		a.Nlink *= 2
	case remote.Link:
		a.Mode |= syscall.S_IFLNK
		a.Size = int64(len(n.Target))
	default:
		a.Mode |= syscall.S_IFREG
	}
	return a
}

// errMoving is about what is being renamed on the remote, or is in such a directory.
var errMoving = errors.New("it is being renamed on the remote")

// moving looks whether a node is, or is in, what the remote is renaming. It may have that at its old
// place or at its new one, and of a directory some objects twice. Callers hold the lock.
func (v *Volume) moving(n *meta.Node) error {
	o := v.state.First()
	if o == nil || o.Kind != meta.Rename || o.Seq != v.inherited && !v.tree.Moving(o.Seq) {
		return nil
	}
	for n != nil && n.There && n.Ino != meta.Root {
		if n.Ino == o.Ino {
			return errMoving
		}
		n = v.state.Node(n.At)
	}
	return nil
}

// node gives a node. Callers hold the lock.
func (v *Volume) node(ino uint64) (*meta.Node, error) {
	n := v.state.Node(ino)
	if n == nil {
		return nil, errStale
	}
	return n, nil
}

func (v *Volume) dir(ino uint64) (*meta.Node, error) {
	n, err := v.node(ino)
	if err == nil && n.Kind != remote.Dir {
		err = syscall.ENOTDIR
	}
	if err == nil && !n.Linked() {
		err = syscall.ENOENT
	}
	return n, err
}

// found notes what the remote has at a name. Callers hold the lock.
func (v *Volume) found(ino, dir uint64, name string, e remote.Entry) error {
	mode, mtime := e.Mode, e.Mtime
	c := meta.Change{
		Do: meta.DoFound, Ino: ino, Dir: dir, Name: name, Kind: e.Kind, Mode: &mode, UID: e.UID, GID: e.GID,
		Size: e.Version.Size, Mtime: &mtime, Time: mtime, Target: e.Target, V: e.Version,
	}
	_, err := v.change(c)
	v.checked[ino] = time.Now()
	return err
}

// reconcile notes what the remote has of a node that it has all of. Callers hold the lock.
func (v *Volume) reconcile(n *meta.Node, e remote.Entry, err error) error {
	switch {
	case !n.Clean() || n.Ino == meta.Root && err != nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) || err == nil && e.Kind != n.Kind:
		if !v.state.Settled(n) {
			return nil // draining makes it again
		}
		_, err := v.change(meta.Change{Do: meta.DoGone, Ino: n.Ino, Time: now()})
		v.forget(n)
		return err
	case err != nil:
		return err
	}
	v.checked[n.Ino] = time.Now()
	if e.Loose {
		e.Mtime = n.Mtime
	}
	if n.Version == e.Version && n.Mode == e.Mode && n.UID == e.UID && n.GID == e.GID && n.Mtime == e.Mtime && n.Target == e.Target {
		return nil
	}
	return v.found(n.Ino, 0, "", e)
}

// refresh compares a node with the remote, unless that was done lately.
func (v *Volume) refresh(ctx context.Context, ino uint64, within time.Duration) error {
	return retried(ctx, func() error {
		v.names.RLock()
		defer v.names.RUnlock()
		v.mu.Lock()
		n, err := v.node(ino)
		if err != nil || !n.Clean() || !n.Linked() || time.Since(v.checked[ino]) < within {
			v.mu.Unlock()
			return err
		}
		where, there := v.state.RemotePath(n)
		err = v.moving(n)
		v.mu.Unlock()
		if !there || err != nil {
			return err
		}
		e, err := v.tree.Stat(where)
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.state.Node(ino) != n {
			return errStale
		}
		return v.reconcile(n, e, err)
	})
}

// Lookup gives what has a name in a directory.
func (v *Volume) Lookup(ctx context.Context, dir uint64, name string) (a calls.Attr, err error) {
	err = retried(ctx, func() error {
		n, err := v.lookup(dir, name)
		if err == nil {
			a = n
		}
		return err
	})
	return a, err
}

func (v *Volume) lookup(dirIno uint64, name string) (calls.Attr, error) {
	if remote.Hidden(name, dirIno == meta.Root) {
		return calls.Attr{}, syscall.ENOENT
	}
	if len(name) > remote.MostName { // FUSE passes longer ones
		return calls.Attr{}, syscall.ENAMETOOLONG
	}
	if !utf8.ValidString(name) { // the journal and the calls of an agent cannot have it
		return calls.Attr{}, syscall.EILSEQ
	}
	v.names.RLock()
	defer v.names.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dir(dirIno)
	if err != nil {
		return calls.Attr{}, err
	}
	n := v.state.Child(dir, name)
	if n != nil && (!n.Clean() || time.Since(v.checked[n.Ino]) < v.tree.Traits().Fresh) {
		return attr(n), nil
	}
	where, there := v.state.RemotePath(dir)
	where = path.Join(where, name)
	if n != nil {
		where, there = v.state.RemotePath(n)
	} else if v.state.Known(dir, name) != nil {
		there = false // it was moved or removed here
	}
	if !there {
		if n != nil {
			return attr(n), nil
		}
		return calls.Attr{}, syscall.ENOENT
	}
	if err := v.moving(dir); err != nil {
		return calls.Attr{}, err
	}
	v.mu.Unlock()
	e, err := v.tree.Stat(where)
	v.mu.Lock()
	if after := v.state.Child(dir, name); after != n || n == nil && v.state.Known(dir, name) != nil {
		if after == nil {
			return calls.Attr{}, syscall.ENOENT
		}
		return attr(after), nil
	}
	if n != nil {
		if err := v.reconcile(n, e, err); err != nil {
			return calls.Attr{}, err
		}
		if n = v.state.Child(dir, name); n != nil {
			return attr(n), nil
		}
		return calls.Attr{}, syscall.ENOENT
	}
	if err != nil {
		return calls.Attr{}, err
	}
	if e.Kind == remote.Other || !dir.Linked() {
		return calls.Attr{}, syscall.ENOENT
	}
	ino := v.state.Next()
	if err := v.found(ino, dirIno, name, e); err != nil {
		return calls.Attr{}, err
	}
	return attr(v.state.Node(ino)), nil
}

// List gives what is in a directory.
func (v *Volume) List(ctx context.Context, dir uint64) (list []calls.Entry, err error) {
	err = retried(ctx, func() error {
		list, err = v.list(dir)
		return err
	})
	return list, err
}

func (v *Volume) list(dirIno uint64) ([]calls.Entry, error) {
	v.names.RLock()
	defer v.names.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dir(dirIno)
	if err != nil {
		return nil, err
	}
	if where, there := v.state.RemotePath(dir); there {
		if err := v.moving(dir); err != nil {
			return nil, err
		}
		v.mu.Unlock()
		entries, err := v.tree.List(where)
		v.mu.Lock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := v.merge(dir, entries); err != nil {
			return nil, err
		}
	}
	children := v.state.Children(dir)
	list := make([]calls.Entry, len(children))
	for i, n := range children {
		list[i] = calls.Entry{Name: n.Name, Attr: attr(n)}
	}
	return list, nil
}

// merge notes what the remote has in a directory. Callers hold the lock.
func (v *Volume) merge(dir *meta.Node, entries []remote.Entry) error {
	listed := make(map[string]bool, len(entries))
	for _, e := range entries {
		listed[e.Name] = true
		n, known := v.state.Child(dir, e.Name), v.state.Known(dir, e.Name)
		switch {
		case n != nil && n == known:
			if err := v.reconcile(n, e, nil); err != nil {
				return err
			}
			if v.state.Child(dir, e.Name) != nil {
				continue
			}
		case n != nil || known != nil:
			continue
		}
		if e.Kind == remote.Other {
			continue
		}
		if err := v.found(v.state.Next(), dir.Ino, e.Name, e); err != nil {
			return err
		}
	}
	for _, n := range v.state.Children(dir) {
		if n.Clean() && n.At == dir.Ino && !listed[n.As] {
			if err := v.reconcile(n, remote.Entry{}, fs.ErrNotExist); err != nil {
				return err
			}
		}
	}
	return nil
}

// GetAttr gives the attributes of a node.
func (v *Volume) GetAttr(ctx context.Context, ino uint64) (calls.Attr, error) {
	if err := v.refresh(ctx, ino, v.tree.Traits().Fresh); err != nil {
		return calls.Attr{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	n, err := v.node(ino)
	if err != nil {
		return calls.Attr{}, err
	}
	return attr(n), nil
}

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
		Do: meta.DoCreate, Ino: ino, Dir: q.Ino, Name: q.Name, Kind: kind, Mode: &mode, UID: q.UID, GID: q.GID,
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

// keptFor is how long a removed node stays known: a program that has just looked up its
// name may be about to open it.
const keptFor = 10 * time.Second

// forget drops a removed node that nothing needs any more. Callers hold the lock.
func (v *Volume) forget(n *meta.Node) {
	if n.Linked() || v.state.Node(n.Ino) != n {
		return
	}
	if v.removed[n.Ino].IsZero() {
		v.removed[n.Ino] = time.Now()
	}
	v.forgetOld(n, keptFor)
}

func (v *Volume) forgetOld(n *meta.Node, after time.Duration) {
	if f := v.files[n.Ino]; n.Linked() || n.Pending > 0 || f != nil && f.count+f.writers > 0 || time.Since(v.removed[n.Ino]) < after {
		return
	}
	if _, err := v.change(meta.Change{Do: meta.DoForget, Ino: n.Ino}); err != nil {
		v.o.Log.Warn("forget file", "ino", n.Ino, "err", err)
	}
	if f := v.files[n.Ino]; f != nil && f.source != nil {
		f.source.Close()
	}
	delete(v.files, n.Ino)
	delete(v.checked, n.Ino)
	delete(v.removed, n.Ino)
}

// forgetAll drops the removed nodes of which that was so long ago. Callers hold the lock.
func (v *Volume) forgetAll(after time.Duration) {
	for ino := range v.removed {
		if n := v.state.Node(ino); n != nil {
			v.forgetOld(n, after)
		} else {
			delete(v.removed, ino)
		}
	}
}
