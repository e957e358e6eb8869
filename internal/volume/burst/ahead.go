package burst

import (
	"context"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"golang.org/x/sync/errgroup"
)

const (
	// smallSize is the size up to which a file is read as it is opened, by one request that compares its version, too.
	smallSize = 64 << 10
	// filesAhead is how many small files of a directory are fetched ahead, so many of them at once.
	filesAhead, aheadAtOnce = 64, 32
	// aheadTime bounds the fetch of files that nobody waits for.
	aheadTime = 10 * time.Second
	// inOrder is how many files are opened in order before the next ones are fetched ahead, and skipped how many names
	// may be between two of them.
	inOrder, skipped = 2, 4
	// mostFollowed bounds the directories in which files are opened in order.
	mostFollowed = 1024
)

// following is how a program opens the small files of a directory.
type following struct {
	names       []string  // in their order
	at, of      time.Time // when they were noted, and of which list
	last, ahead string    // the file that was opened last, and the last one that is fetched ahead
	run         int       // files that were opened in order
}

// small gives the version of a file that is opened by reading it, and its directory. Callers hold the lock.
func (r reading) small(n *meta.Node) (version remote.Version, is bool) {
	if n == nil || n.Kind != remote.File || n.Local || !r.cached(n) || n.Version.Size == 0 || n.Version.Size > smallSize {
		return version, false
	}
	return n.Version, true
}

// looked has the remote show that a file is of the version that is known, or which one it is. A small file is read for
// that, so that its program need not wait again.
func (r reading) looked(ctx context.Context, ino uint64) error {
	r.v.journal.mu.Lock()
	n := r.v.journal.state.Node(ino)
	version, small := r.small(n)
	r.v.journal.mu.Unlock()
	if !small {
		return r.v.names.refresh(ctx, ino, 0)
	}
	of := r.reader(ino, version)
	whole, ahead := r.v.cache.Whole(of)
	if !whole && r.v.cache.Fetch(ctx, of, false) == nil || ahead {
		r.follow(ino)
		return nil
	}
	err := r.v.names.refresh(ctx, ino, 0)
	if err == nil {
		r.follow(ino)
	}
	return err
}

// follow notes that a small file was opened, and fetches the next ones of its directory where some were opened in order.
func (r reading) follow(ino uint64) {
	r.v.journal.mu.Lock()
	defer r.v.journal.mu.Unlock()
	n := r.v.journal.state.Node(ino)
	if n == nil || !n.Linked() {
		return
	}
	dir := r.v.journal.state.Node(n.Parent)
	if dir.Names()+r.v.names.bare(dir.Ino) > r.v.names.glanced { // to sort them takes too long, again and again
		return
	}
	f := r.v.follows[dir.Ino]
	if f == nil {
		if len(r.v.follows) >= mostFollowed {
			clear(r.v.follows)
		}
		f = &following{}
		r.v.follows[dir.Ino] = f
	}
	if of := r.v.names.listedAt(dir.Ino); of != f.of || time.Since(f.at) > aheadTime {
		f.names, f.at, f.of = r.v.names.shown(dir), time.Now(), of
	}
	here, _ := slices.BinarySearch(f.names, n.Name)
	before, _ := slices.BinarySearch(f.names, f.last)
	switch {
	case n.Name == f.last:
		return
	case f.last != "" && here > before && here <= before+skipped:
		f.run++
	default:
		f.run, f.ahead = 0, ""
	}
	f.last = n.Name
	done, _ := slices.BinarySearch(f.names, f.ahead)
	if f.ahead == "" {
		done = here
	}
	if f.run < inOrder || done > here+filesAhead/2 {
		return
	}
	next := f.names[min(max(done, here)+1, len(f.names)):min(here+1+filesAhead, len(f.names))]
	if len(next) == 0 {
		return
	}
	f.ahead = next[len(next)-1]
	go r.fetchAhead(dir.Ino, slices.Clone(next))
}

// fetchAhead fetches small files that a program is about to open.
func (r reading) fetchAhead(dir uint64, names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), aheadTime)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(aheadAtOnce)
	for _, name := range names {
		g.Go(func() error {
			return core.Caught(func() error { return r.fetchNext(ctx, dir, name) })
		})
	}
	if err := g.Wait(); err != nil { // its program fetches it
		r.v.o.Log.Debug("fetch ahead", "err", err)
	}
}

func (r reading) fetchNext(ctx context.Context, dir uint64, name string) error {
	a, err := r.v.names.Lookup(ctx, dir, name)
	if err != nil {
		return err
	}
	r.v.journal.mu.Lock()
	version, small := r.small(r.v.journal.state.Node(a.Ino))
	r.v.journal.mu.Unlock()
	if !small {
		return nil
	}
	return r.v.cache.Fetch(ctx, r.reader(a.Ino, version), true)
}
