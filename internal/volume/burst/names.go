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
	// current reports whether the remote need not be asked. Callers hold the lock.
	current := func(n *meta.Node) bool {
		return !n.Clean() || !n.Linked() || time.Since(v.checked[ino]) < within
	}
	return retried(ctx, func() error {
		v.mu.Lock() // first without names: that may wait for a request of the drain
		n, err := v.node(ino)
		known := err == nil && current(n)
		v.mu.Unlock()
		if err != nil || known {
			return err
		}
		v.names.RLock()
		defer v.names.RUnlock()
		v.mu.Lock()
		n, err = v.node(ino)
		if err != nil || current(n) {
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

// current reports whether attributes of a node count without asking the remote. Callers hold the lock.
func (v *Volume) current(n *meta.Node) bool {
	return !n.Clean() || time.Since(v.checked[n.Ino]) < v.tree.Traits().Fresh
}

// known answers a lookup for which the remote need not be asked. It does not wait for a request of the
// drain.
func (v *Volume) known(dirIno uint64, name string) (a calls.Attr, known bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dir(dirIno)
	if err != nil {
		return a, false, err
	}
	n := v.state.Child(dir, name)
	switch {
	case n != nil && v.current(n):
		return attr(n), true, nil
	case n == nil && (!dir.There || v.localName(dir, name)):
		return a, true, syscall.ENOENT
	}
	return a, false, nil
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
	if a, known, err := v.known(dirIno, name); known || err != nil {
		return a, err
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
	if n != nil && v.current(n) {
		return attr(n), nil
	}
	where, there := v.state.RemotePath(dir)
	where = path.Join(where, name)
	if n != nil {
		where, there = v.state.RemotePath(n)
	} else if v.state.Known(dir, name) != nil || v.localName(dir, name) {
		there = false // it was moved or removed here, or is not for the remote
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
	if list, known, err := v.unsent(dirIno); known || err != nil {
		return list, err
	}
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
	return v.entries(dir), nil
}

// unsent lists a directory that the remote does not have. It does not wait for a request of the drain.
func (v *Volume) unsent(dirIno uint64) (list []calls.Entry, known bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dir(dirIno)
	if err != nil || dir.There {
		return nil, false, err
	}
	return v.entries(dir), true, nil
}

// entries gives what users see in a directory. Callers hold the lock.
func (v *Volume) entries(dir *meta.Node) []calls.Entry {
	children := v.state.Children(dir)
	list := make([]calls.Entry, len(children))
	for i, n := range children {
		list[i] = calls.Entry{Name: n.Name, Attr: attr(n)}
	}
	return list
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
		if e.Kind == remote.Other || v.localName(dir, e.Name) {
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
