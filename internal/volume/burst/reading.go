package burst

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/cache"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

const (
	// seenFor is how long the content of a version counts after the remote was seen to have that.
	seenFor = time.Second
	// cacheName is the directory of what was read, beside the segments of the journal.
	cacheName = "read"
)

// reading is a volume as programs read it: by its cache, where it has one.
type reading struct{ v *Volume }

func readsOf(v *Volume) reading { return reading{v} }

// openCache gives a volume with a line to its remote a cache. A directory of this host is read where it is.
func (r reading) openCache() error {
	if r.v.tree.Traits().Keeps && !r.v.o.keep {
		return nil
	}
	c, err := cache.Open(filepath.Join(r.v.o.Place, cacheName), r.v.room.forCache)
	if err != nil {
		return err
	}
	r.v.cache, r.v.room.cache = c, c
	r.v.journal.release = r.v.room.release
	return nil
}

// forget drops what is kept of files.
func (r reading) forget(inos ...uint64) {
	if r.v.cache == nil {
		return
	}
	for _, ino := range inos {
		r.v.cache.Drop(ino)
	}
}

// passed drops what is kept of a file before an offset.
func (r reading) passed(ino uint64, before int64) {
	if r.v.cache != nil {
		r.v.cache.Pass(ino, before)
	}
}

// cached reports whether content of a node is read through the cache. Of one with changes that the remote lacks, or
// without a name there, nobody looks at the version. Callers hold the lock of the journal.
func (r reading) cached(n *meta.Node) bool {
	return r.v.cache != nil && n.Clean() && n.Linked() && !n.Version.None()
}

// readCached reads bytes of a file that the remote has. fs.ErrClosed: it is another version by now.
func (r reading) readCached(ctx context.Context, ino uint64, version remote.Version, off, size int64) ([]byte, error) {
	p, again, err := r.v.cache.Read(ctx, r.reader(ino, version), off, size)
	if errors.Is(err, fs.ErrClosed) {
		if rerr := r.v.names.refresh(ctx, ino, r.v.o.seenFor); rerr != nil {
			return nil, rerr
		}
	}
	if err != nil {
		return nil, err
	}
	r.v.journal.mu.Lock()
	defer r.v.journal.mu.Unlock()
	r.v.traffic.hit(int(again))
	r.v.traffic.miss(len(p) - int(again))
	return p, nil
}

// reader reads a version of a file by the cache.
func (r reading) reader(ino uint64, version remote.Version) cache.Reader {
	return cache.Reader{
		Ino: ino, Version: version, Fresh: r.v.o.seenFor,
		Fetch: func(ctx context.Context, p []byte, off int64) (got int, err error) {
			err = retried(ctx, func() (err error) { got, err = r.readVersion(ctx, ino, version, p, off); return err })
			if errors.Is(err, fs.ErrClosed) {
				r.v.journal.mu.Lock()
				defer r.v.journal.mu.Unlock()
				delete(r.v.journal.checked, ino)
			}
			return got, err
		},
		Check: func(ctx context.Context) (time.Time, error) { return r.seen(ctx, ino, version) },
	}
}

// seen gives when the remote was seen to have a version of a file, which is not long ago.
func (r reading) seen(ctx context.Context, ino uint64, version remote.Version) (time.Time, error) {
	if err := r.v.names.refresh(ctx, ino, r.v.o.seenFor); err != nil {
		return time.Time{}, err
	}
	r.v.journal.mu.Lock()
	defer r.v.journal.mu.Unlock()
	n, err := r.v.journal.node(ino)
	if err == nil && (n.Version != version || !r.cached(n)) {
		err = fs.ErrClosed
	}
	return r.v.journal.checked[ino], err
}

// readVersion reads bytes of a version of a file, which the remote compares.
func (r reading) readVersion(ctx context.Context, ino uint64, version remote.Version, p []byte, off int64) (int, error) {
	where, err := r.whereOf(ino, version)
	if err != nil {
		return 0, err
	}
	s := r.v.tree.Known(where, version)
	if s == nil {
		if s, err = r.v.tree.Open(where); err != nil {
			return 0, err
		}
	}
	defer s.Close()
	if s.Version() != version {
		return 0, fs.ErrClosed
	}
	return s.Read(ctx, p, off)
}

// whereOf gives where the remote has a version of a file.
func (r reading) whereOf(ino uint64, version remote.Version) (string, error) {
	r.v.journal.mu.Lock()
	defer r.v.journal.mu.Unlock()
	n, err := r.v.journal.node(ino)
	if err != nil {
		return "", err
	}
	where, there := r.v.journal.state.RemotePath(n)
	if err := r.v.names.moving(n); err != nil {
		return "", err
	}
	if !there || n.Version != version || !r.cached(n) {
		return "", fs.ErrClosed
	}
	return where, nil
}

// closeCache removes what was read.
func (r reading) closeCache() error {
	if r.v.cache == nil {
		return nil
	}
	err := r.v.cache.Close()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readWhole reads a part of a file that is fetched as a whole, and gives how much of it was in the cache.
func (r reading) readWhole(ctx context.Context, ino uint64, s remote.Source, off, size int64) (p []byte, again int64, err error) {
	r.v.journal.mu.Lock()
	n, err := r.v.journal.node(ino)
	cached := err == nil && r.cached(n) && n.Version == s.Version()
	r.v.journal.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	if cached {
		return r.v.cache.Read(ctx, r.reader(ino, s.Version()), off, size)
	}
	p, got := make([]byte, size), 0
	err = r.v.readSource(ctx, ino, s, func() (err error) { got, err = s.Read(ctx, p, off); return err })
	return p[:got], 0, err
}
