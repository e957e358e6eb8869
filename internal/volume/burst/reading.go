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
type reading struct{ *Volume }

func readsOf(v *Volume) reading { return reading{v} }

// openCache gives a volume with a line to its remote a cache. A directory of this host is read where it is.
func (v reading) openCache() error {
	if v.tree.Traits().Keeps && !v.o.keep {
		return nil
	}
	c, err := cache.Open(filepath.Join(v.o.Place, cacheName), v.room.forCache)
	if err != nil {
		return err
	}
	v.cache, v.room.cache = c, c
	return nil
}

// forget drops what is kept of files.
func (v reading) forget(inos ...uint64) {
	if v.cache == nil {
		return
	}
	for _, ino := range inos {
		v.cache.Drop(ino)
	}
}

// cached reports whether content of a node is read through the cache. Of one with changes that the remote lacks, or
// without a name there, nobody looks at the version. Callers hold the lock of the journal.
func (v reading) cached(n *meta.Node) bool {
	return v.cache != nil && n.Clean() && n.Linked() && !n.Version.None()
}

// readCached reads bytes of a file that the remote has. fs.ErrClosed: it is another version by now.
func (v reading) readCached(ctx context.Context, ino uint64, version remote.Version, off, size int64) ([]byte, error) {
	p, again, err := v.cache.Read(ctx, v.reader(ino, version), off, size)
	if errors.Is(err, fs.ErrClosed) {
		if rerr := v.names.refresh(ctx, ino, v.o.seenFor); rerr != nil {
			return nil, rerr
		}
	}
	if err != nil {
		return nil, err
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	v.traffic.hit(int(again))
	v.traffic.miss(len(p) - int(again))
	return p, nil
}

// reader reads a version of a file by the cache.
func (v reading) reader(ino uint64, version remote.Version) cache.Reader {
	return cache.Reader{
		Ino: ino, Version: version, Fresh: v.o.seenFor,
		Fetch: func(ctx context.Context, p []byte, off int64) (got int, err error) {
			err = retried(ctx, func() (err error) { got, err = v.readVersion(ctx, ino, version, p, off); return err })
			if errors.Is(err, fs.ErrClosed) {
				v.journal.mu.Lock()
				defer v.journal.mu.Unlock()
				delete(v.journal.checked, ino)
			}
			return got, err
		},
		Check: func(ctx context.Context) (time.Time, error) { return v.seen(ctx, ino, version) },
	}
}

// seen gives when the remote was seen to have a version of a file, which is not long ago.
func (v reading) seen(ctx context.Context, ino uint64, version remote.Version) (time.Time, error) {
	if err := v.names.refresh(ctx, ino, v.o.seenFor); err != nil {
		return time.Time{}, err
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	n, err := v.journal.node(ino)
	if err == nil && (n.Version != version || !v.cached(n)) {
		err = fs.ErrClosed
	}
	return v.journal.checked[ino], err
}

// readVersion reads bytes of a version of a file, which the remote compares.
func (v reading) readVersion(ctx context.Context, ino uint64, version remote.Version, p []byte, off int64) (int, error) {
	where, err := v.whereOf(ino, version)
	if err != nil {
		return 0, err
	}
	s := v.tree.Known(where, version)
	if s == nil {
		if s, err = v.tree.Open(where); err != nil {
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
func (v reading) whereOf(ino uint64, version remote.Version) (string, error) {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	n, err := v.journal.node(ino)
	if err != nil {
		return "", err
	}
	where, there := v.journal.state.RemotePath(n)
	if err := v.names.moving(n); err != nil {
		return "", err
	}
	if !there || n.Version != version || !v.cached(n) {
		return "", fs.ErrClosed
	}
	return where, nil
}

// closeCache removes what was read.
func (v reading) closeCache() error {
	if v.cache == nil {
		return nil
	}
	err := v.cache.Close()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
