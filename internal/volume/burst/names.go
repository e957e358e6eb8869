package burst

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// names merges names and attributes of the journal with those of the remote: users see both as one
// tree.
type names struct {
	journal *journal
	tree    remote.Remote
	rules   *rules

	// lock is held while names on the remote are read, and exclusively while some are moved. lists is held while whole
	// directories are read, and exclusively while any name changes: what is asked about a single name is compared with
	// what has changed meanwhile. Both are taken before the lock of the journal, lists first.
	lock, lists sync.RWMutex
	// changed counts the changes of names in a directory that were carried out. The journal's lock guards it.
	changed map[uint64]uint64
	// inherited is the operation that an earlier process or try may have begun: whether the remote has
	// carried it out is not known. The journal's lock guards it.
	inherited uint64
	// listings are what lists of directories have shown, by their number. The journal's lock guards them.
	listings map[uint64]*listing
	// far is whether a request takes long enough that lists spare some, and glanced how many names these have at most.
	far     bool
	glanced int
}

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

// errChanged is about a directory in which names have changed while one was asked for.
var errChanged = errors.New("its directory is being changed on the remote")

// place is which version the remote has of a node, and where.
type place struct {
	dir     uint64
	name    string
	version remote.Version
}

func placeOf(n *meta.Node) place {
	if n == nil {
		return place{}
	}
	return place{n.At, n.As, n.Version}
}

// change carries out a change of names on the remote, beside which no list of a directory is read. moves: nor any
// single name. The result is recorded by record, whose callers hold the lock of the journal.
func (ns *names) change(moves bool, do func(), record func() error) error {
	ns.lists.Lock()
	defer ns.lists.Unlock()
	if moves {
		ns.lock.Lock()
		defer ns.lock.Unlock()
	}
	do()
	ns.journal.mu.Lock()
	defer ns.journal.mu.Unlock()
	return record()
}

// changes counts a change of names in directories. Callers hold the lock of the journal.
func (ns *names) changes(dirs ...uint64) {
	if len(ns.changed) >= mostListings {
		clear(ns.changed)
	}
	for _, dir := range dirs {
		ns.changed[dir]++
	}
}

// moving looks whether a node is, or is in, what the remote is renaming. It may have that at its old
// place or at its new one, and of a directory some objects twice. Callers hold the lock.
func (ns *names) moving(n *meta.Node) error {
	o := ns.journal.state.First()
	if o == nil || o.Kind != meta.Rename || o.Seq != ns.inherited && !ns.tree.Moving(o.Seq) {
		return nil
	}
	for n != nil && n.There && n.Ino != meta.Root {
		if n.Ino == o.Ino {
			return errMoving
		}
		n = ns.journal.state.Node(n.At)
	}
	return nil
}

// found notes what the remote has at a name, which was asked for at a time. Callers hold the lock.
func (ns *names) found(ino, dir uint64, name string, e remote.Entry, asked time.Time) error {
	mode, mtime := e.Mode, e.Mtime
	c := meta.Change{
		Do: meta.DoFound, Ino: ino, Dir: dir, Name: name, Kind: e.Kind, Mode: &mode, UID: e.UID, GID: e.GID,
		Size: e.Version.Size, Mtime: &mtime, Time: mtime, Target: e.Target, V: e.Version,
	}
	_, err := ns.journal.change(c)
	ns.journal.checked[ino] = asked
	return err
}

// reconcile notes what the remote has of a node that it has all of, which was asked for at a time. Callers hold the lock.
func (ns *names) reconcile(n *meta.Node, e remote.Entry, err error, asked time.Time) error {
	switch {
	case ns.journal.checked[n.Ino].After(asked): // a change was carried out since, or another answer is newer
		return nil
	case !n.Clean() || n.Ino == meta.Root && err != nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) || err == nil && e.Kind != n.Kind:
		if !ns.journal.state.Settled(n) {
			return nil // draining makes it again
		}
		_, err := ns.journal.change(meta.Change{Do: meta.DoGone, Ino: n.Ino, Time: now()})
		ns.journal.forget(n)
		return err
	case err != nil:
		return err
	}
	ns.journal.checked[n.Ino] = asked
	if e.Loose {
		e.Mtime = n.Mtime
	}
	if n.Version == e.Version && n.Mode == e.Mode && n.UID == e.UID && n.GID == e.GID && n.Mtime == e.Mtime && n.Target == e.Target {
		return nil
	}
	return ns.found(n.Ino, 0, "", e, asked)
}

// whileFresh has refresh compare nothing as long as attributes count.
const whileFresh = -1

// refresh compares a node with the remote, unless that was done lately.
func (ns *names) refresh(ctx context.Context, ino uint64, within time.Duration) error {
	// current reports whether the remote need not be asked. Callers hold the lock.
	current := func(n *meta.Node) bool {
		if within == whileFresh {
			return !n.Linked() || ns.current(n)
		}
		return !n.Clean() || !n.Linked() || time.Since(ns.journal.checked[ino]) < within
	}
	return retried(ctx, func() error {
		ns.journal.mu.Lock() // first without names: that may wait for a request of the drain
		n, err := ns.journal.node(ino)
		known := err == nil && current(n)
		ns.journal.mu.Unlock()
		if err != nil || known {
			return err
		}
		ns.lock.RLock()
		defer ns.lock.RUnlock()
		ns.journal.mu.Lock()
		n, err = ns.journal.node(ino)
		if err != nil || current(n) {
			ns.journal.mu.Unlock()
			return err
		}
		where, there := ns.journal.state.RemotePath(n)
		err = ns.moving(n)
		if within == whileFresh && n.Ino != meta.Root {
			ns.asks(n.At)
		}
		if !there || err != nil {
			ns.journal.mu.Unlock()
			return err
		}
		asked, was := time.Now(), placeOf(n)
		ns.journal.mu.Unlock()
		e, err := ns.tree.Stat(where)
		ns.journal.mu.Lock()
		defer ns.journal.mu.Unlock()
		if ns.journal.state.Node(ino) != n {
			return errStale
		}
		if placeOf(n) != was {
			return errChanged
		}
		return ns.reconcile(n, e, err, asked)
	})
}

// Lookup gives what has a name in a directory.
func (ns *names) Lookup(ctx context.Context, dir uint64, name string) (a calls.Attr, err error) {
	err = retried(ctx, func() error {
		n, err := ns.lookup(dir, name)
		if err == nil {
			a = n
		}
		return err
	})
	return a, err
}

// current reports whether attributes of a node count without asking the remote. Callers hold the lock.
func (ns *names) current(n *meta.Node) bool {
	return !n.Clean() || time.Since(ns.journal.checked[n.Ino]) < ns.fresh(n)
}

// known answers a lookup for which the remote need not be asked. It does not wait for a request of the
// drain.
func (ns *names) known(dirIno uint64, name string) (a calls.Attr, known bool, err error) {
	ns.journal.mu.Lock()
	defer ns.journal.mu.Unlock()
	dir, err := ns.journal.dir(dirIno)
	if err != nil {
		return a, false, err
	}
	n := ns.journal.state.Child(dir, name)
	switch {
	case n != nil && ns.current(n):
		return attr(n), true, nil
	case n == nil && (!dir.There || ns.rules.localName(dir, name) || ns.absent(dir, name)):
		return a, true, syscall.ENOENT
	}
	return a, false, nil
}

// lookup is one try of Lookup.
func (ns *names) lookup(dirIno uint64, name string) (calls.Attr, error) {
	if remote.Hidden(name, dirIno == meta.Root) {
		return calls.Attr{}, syscall.ENOENT
	}
	if len(name) > remote.MostName { // FUSE passes longer ones
		return calls.Attr{}, syscall.ENAMETOOLONG
	}
	if !utf8.ValidString(name) { // the journal and the calls of an agent cannot have it
		return calls.Attr{}, syscall.EILSEQ
	}
	if a, known, err := ns.known(dirIno, name); known || err != nil {
		return a, err
	}
	ns.lock.RLock()
	defer ns.lock.RUnlock()
	ns.journal.mu.Lock()
	defer ns.journal.mu.Unlock()
	dir, err := ns.journal.dir(dirIno)
	if err != nil {
		return calls.Attr{}, err
	}
	n := ns.journal.state.Child(dir, name)
	if n != nil && ns.current(n) {
		return attr(n), nil
	}
	where, there := ns.journal.state.RemotePath(dir)
	where = path.Join(where, name)
	if n != nil {
		where, there = ns.journal.state.RemotePath(n)
	} else if ns.journal.state.Known(dir, name) != nil || ns.rules.localName(dir, name) {
		there = false // it was moved or removed here, or is not for the remote
	}
	if !there {
		if n != nil {
			return attr(n), nil
		}
		return calls.Attr{}, syscall.ENOENT
	}
	if err := ns.moving(dir); err != nil {
		return calls.Attr{}, err
	}
	ns.asks(dirIno)
	asked, changed, was := time.Now(), ns.changed[dirIno], placeOf(n)
	ns.journal.mu.Unlock()
	e, err := ns.tree.Stat(where)
	ns.journal.mu.Lock()
	if after := ns.journal.state.Child(dir, name); after != n || n == nil && ns.journal.state.Known(dir, name) != nil {
		if after == nil {
			return calls.Attr{}, syscall.ENOENT
		}
		return attr(after), nil
	}
	if n != nil {
		if placeOf(n) != was {
			return calls.Attr{}, errChanged
		}
		if err := ns.reconcile(n, e, err, asked); err != nil {
			return calls.Attr{}, err
		}
		if n = ns.journal.state.Child(dir, name); n != nil {
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
	if ns.changed[dirIno] != changed { // it may be what was there before
		return calls.Attr{}, errChanged
	}
	ino := ns.journal.state.Next()
	if err := ns.found(ino, dirIno, name, e, asked); err != nil {
		return calls.Attr{}, err
	}
	return attr(ns.journal.state.Node(ino)), nil
}

// List gives what is in a directory.
func (ns *names) List(ctx context.Context, dir uint64) (list []calls.Entry, err error) {
	err = retried(ctx, func() error {
		list, err = ns.list(dir)
		return err
	})
	return list, err
}

// list is one try of List.
func (ns *names) list(dirIno uint64) ([]calls.Entry, error) {
	if list, known, err := ns.unsent(dirIno); known || err != nil {
		return list, err
	}
	ns.lists.RLock()
	defer ns.lists.RUnlock()
	ns.lock.RLock()
	defer ns.lock.RUnlock()
	ns.journal.mu.Lock()
	defer ns.journal.mu.Unlock()
	dir, err := ns.journal.dir(dirIno)
	if err != nil {
		return nil, err
	}
	if where, there := ns.journal.state.RemotePath(dir); there {
		if err := ns.moving(dir); err != nil {
			return nil, err
		}
		begun := time.Now()
		ns.journal.mu.Unlock()
		entries, err := ns.tree.List(where)
		ns.journal.mu.Lock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := ns.listed(dir, entries, begun); err != nil {
			return nil, err
		}
	}
	return ns.entries(dir), nil
}

// unsent lists a directory that the remote does not have. It does not wait for a request of the drain.
func (ns *names) unsent(dirIno uint64) (list []calls.Entry, known bool, err error) {
	ns.journal.mu.Lock()
	defer ns.journal.mu.Unlock()
	dir, err := ns.journal.dir(dirIno)
	if err != nil || dir.There {
		return nil, false, err
	}
	return ns.entries(dir), true, nil
}

// entries gives what users see in a directory. Callers hold the lock.
func (ns *names) entries(dir *meta.Node) []calls.Entry {
	children := ns.journal.state.Children(dir)
	list := make([]calls.Entry, len(children))
	for i, n := range children {
		list[i] = calls.Entry{Name: n.Name, Attr: attr(n)}
	}
	return list
}

// pass lets others have the lock of the journal, which its callers hold, after each so many names of a directory.
func (ns *names) pass(dir *meta.Node, i int) error {
	if i%mergedAtOnce != mergedAtOnce-1 {
		return nil
	}
	ns.journal.mu.Unlock()
	ns.journal.mu.Lock()
	if ns.journal.state.Node(dir.Ino) != dir || !dir.Linked() {
		return errChanged
	}
	return nil
}

// merge notes what the remote has in a directory, which was asked for at a time. Callers hold the lock, which others have
// meanwhile: what they change counts as if they had while the remote was asked.
func (ns *names) merge(dir *meta.Node, entries []remote.Entry, asked time.Time) error {
	listed := make(map[string]bool, len(entries))
	for i, e := range entries {
		if err := ns.pass(dir, i); err != nil {
			return err
		}
		listed[e.Name] = true
		n, known := ns.journal.state.Child(dir, e.Name), ns.journal.state.Known(dir, e.Name)
		switch {
		case e.Kind == 0: // only its name and version are known
			if n != nil && n.Version != e.Version {
				delete(ns.journal.checked, n.Ino)
			}
			continue
		case n != nil && n == known:
			if err := ns.reconcile(n, e, nil, asked); err != nil {
				return err
			}
			if ns.journal.state.Child(dir, e.Name) != nil {
				continue
			}
		case n != nil || known != nil:
			continue
		}
		if e.Kind == remote.Other || ns.rules.localName(dir, e.Name) {
			continue
		}
		if err := ns.found(ns.journal.state.Next(), dir.Ino, e.Name, e, asked); err != nil {
			return err
		}
	}
	for i, n := range ns.journal.state.Children(dir) {
		if err := ns.pass(dir, i); err != nil {
			return err
		}
		if ns.journal.state.Node(n.Ino) == n && n.Clean() && n.At == dir.Ino && !listed[n.As] {
			if err := ns.reconcile(n, remote.Entry{}, fs.ErrNotExist, asked); err != nil {
				return err
			}
		}
	}
	return nil
}

// GetAttr gives the attributes of a node.
func (ns *names) GetAttr(ctx context.Context, ino uint64) (calls.Attr, error) {
	if err := ns.refresh(ctx, ino, whileFresh); err != nil {
		return calls.Attr{}, err
	}
	ns.journal.mu.Lock()
	defer ns.journal.mu.Unlock()
	n, err := ns.journal.node(ino)
	if err != nil {
		return calls.Attr{}, err
	}
	return attr(n), nil
}

// vacant looks whether a directory is empty, on the remote too.
func (ns *names) vacant(ctx context.Context, ino uint64) error {
	list, err := ns.List(ctx, ino)
	if err == nil && len(list) > 0 {
		err = syscall.ENOTEMPTY
	}
	return err
}
