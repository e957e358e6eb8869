package burst

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// OpenFile notes that a client opens a file. What the remote has of it is looked at again.
func (v *Volume) OpenFile(ctx context.Context, ino uint64, truncate bool) (calls.Attr, error) {
	if err := v.names.refresh(ctx, ino, 0); err != nil {
		return calls.Attr{}, err
	}
	v.journal.mu.Lock()
	_, err := v.journal.node(ino)
	if err == nil {
		v.journal.file(ino).count++ // before it is truncated: an empty version is not published by itself
	}
	v.journal.mu.Unlock()
	if err != nil {
		return calls.Attr{}, err
	}
	if truncate {
		if err := v.Truncate(ctx, ino, 0); err != nil {
			return calls.Attr{}, errors.Join(err, v.Release(ino, 1))
		}
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	n, err := v.journal.node(ino)
	if err != nil {
		return calls.Attr{}, err
	}
	return attr(n), nil
}

// open is OpenFile with the flags of a request.
func (v *Volume) open(ctx context.Context, ino uint64, flags uint8) (calls.Attr, error) {
	if flags&calls.Writing != 0 {
		v.journal.mu.Lock()
		n, err := v.journal.node(ino)
		if err == nil {
			err = v.rules.writable(n)
		}
		v.journal.mu.Unlock()
		if err != nil {
			return calls.Attr{}, err
		}
	}
	return v.OpenFile(ctx, ino, flags&calls.Truncate != 0)
}

// Release notes that a client has closed a file so many times.
func (v *Volume) Release(ino uint64, times int) error {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	n, f := v.journal.state.Node(ino), v.journal.files[ino]
	if n == nil || f == nil {
		return nil
	}
	f.count = max(f.count-times, 0)
	if f.count > 0 {
		return nil
	}
	err := v.journal.put(n)
	if f.source != nil {
		f.source.Close()
		f.source = nil
	}
	v.journal.forget(n)
	if f.writers == 0 {
		delete(v.journal.files, ino)
	}
	return err
}

// errAgain is about a file that has changed on the remote meanwhile.
var errAgain = errors.New("the file is being changed on the remote")

// source gives the file of the remote that a node is read from.
func (v *Volume) source(ctx context.Context, ino uint64) (s remote.Source, err error) {
	err = retried(ctx, func() error {
		v.names.lock.RLock()
		defer v.names.lock.RUnlock()
		v.journal.mu.Lock()
		defer v.journal.mu.Unlock()
		n, err := v.journal.node(ino)
		if err != nil {
			return err
		}
		f := v.journal.file(ino)
		if f.source != nil && (f.source.Version() == n.Version || !n.Linked() || !n.There) {
			s = f.source
			return nil
		}
		where, there := v.journal.state.RemotePath(n)
		if !there {
			return fs.ErrNotExist
		}
		if err := v.names.moving(n); err != nil {
			return err
		}
		v.journal.mu.Unlock()
		opened, err := v.tree.Open(where)
		v.journal.mu.Lock()
		if err != nil {
			return err
		}
		if opened.Version() != n.Version && n.Clean() {
			e, serr := v.tree.Stat(where)
			if err := v.names.reconcile(n, e, serr); err != nil {
				opened.Close()
				return err
			}
		}
		if opened.Version() != n.Version {
			opened.Close()
			return errAgain
		}
		if f.source != nil && f.source.Version() == n.Version { // another reader was first, and reads from it
			opened.Close()
			s = f.source
			return nil
		}
		if f.source != nil {
			f.source.Close()
		}
		f.source, s = opened, opened
		return nil
	})
	return s, err
}

// Read gives bytes of a file; fewer at its end.
func (v *Volume) Read(ctx context.Context, ino uint64, off, size int64) ([]byte, error) {
	if size < 0 || size > calls.MaxData || off < 0 || off > math.MaxInt64-size {
		return nil, syscall.EINVAL
	}
	for {
		p, err := v.read(ctx, ino, off, size)
		if !errors.Is(err, fs.ErrClosed) || ctx.Err() != nil {
			return p, err
		}
		// The segment, or the file of the remote, has gone since: look again.
	}
}

func (v *Volume) read(ctx context.Context, ino uint64, off, size int64) ([]byte, error) {
	v.journal.mu.Lock()
	n, err := v.journal.node(ino)
	if err != nil {
		v.journal.mu.Unlock()
		return nil, err
	}
	end := min(off+size, n.Size)
	if off >= end {
		v.journal.mu.Unlock()
		return nil, nil
	}
	p := make([]byte, end-off)
	if !n.Local {
		v.misses += int64(len(p))
		v.journal.mu.Unlock()
		s, err := v.source(ctx, ino)
		if err != nil {
			return nil, err
		}
		got := 0
		err = v.readSource(ctx, ino, s, func() error { got, err = s.Read(ctx, p, off); return err })
		return p[:got], err
	}
	v.hits += int64(len(p))
	parts := n.Extents
	v.journal.mu.Unlock()
	return p, meta.ReadAt(parts, p, off, func(e meta.Extent, p []byte) error { return v.journal.read(e.Rec, e.Skip, p) })
}

// readSource reads a file of the remote. One whose version is gone is opened again the next time.
func (v *Volume) readSource(ctx context.Context, ino uint64, s remote.Source, read func() error) error {
	err := retried(ctx, read)
	if errors.Is(err, fs.ErrClosed) {
		v.journal.mu.Lock()
		defer v.journal.mu.Unlock()
		if f := v.journal.files[ino]; f != nil && f.source == s {
			f.source.Close()
			f.source = nil
		}
	}
	return err
}

// Write writes bytes into a file. When it has returned they are in the journal.
func (v *Volume) Write(ctx context.Context, ino uint64, off int64, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if off < 0 || off > math.MaxInt64-int64(len(data)) || len(data) > calls.MaxData {
		return syscall.EFBIG
	}
	return v.written(ctx, ino, true, int64(len(data)), func(n *meta.Node) error {
		r := buffer.Record{Kind: buffer.Data, Ino: ino, Off: off, Time: now(), Payload: data}
		if err := v.journal.log.Append(&r); err != nil {
			return &journalError{err}
		}
		v.journal.state.Data(n, r)
		v.journal.file(ino).seq = r.Seq
		return nil
	})
}

// Truncate sets the size of a file.
func (v *Volume) Truncate(ctx context.Context, ino uint64, size int64) error {
	if size < 0 {
		return syscall.EINVAL
	}
	return v.written(ctx, ino, size > 0, 0, func(n *meta.Node) error {
		if n.Size == size && n.Local && size > 0 {
			return nil
		}
		_, err := v.journal.change(meta.Change{Do: meta.DoTruncate, Ino: ino, Size: size, Time: now()})
		return err
	})
}

// written changes the content of a file, which is here as a whole first, unless none of
// it stays.
func (v *Volume) written(ctx context.Context, ino uint64, stays bool, bytes int64, write func(n *meta.Node) error) error {
	v.journal.mu.Lock()
	if n, err := v.journal.node(ino); err == nil {
		if err := v.rules.writable(n); err != nil {
			v.journal.mu.Unlock()
			return err
		}
	}
	f := v.journal.file(ino)
	f.writers++ // it is not evicted meanwhile
	v.journal.mu.Unlock()
	defer func() {
		v.journal.mu.Lock()
		defer v.journal.mu.Unlock()
		if f.writers--; f.writers > 0 || f.count > 0 || v.journal.files[ino] != f {
			return
		}
		if f.source != nil {
			f.source.Close()
		}
		delete(v.journal.files, ino)
	}()
	for {
		if stays {
			if err := v.fetch(ctx, ino, bytes); err != nil {
				return err
			}
		}
		if err := v.room.wait(ctx, bytes); err != nil {
			return err
		}
		v.journal.mu.Lock()
		n, err := v.journal.node(ino)
		if err == nil && n.Kind != remote.File {
			err = syscall.EISDIR
		}
		if err == nil && stays && !n.Local { // it was evicted since
			v.journal.mu.Unlock()
			continue
		}
		if err == nil {
			err = write(n)
		}
		if err == nil {
			switch {
			case f.count == 0: // nobody will close it
				err = v.journal.put(n)
			case f.dirty.IsZero():
				f.dirty = time.Now()
			}
		}
		v.journal.mu.Unlock()
		if errors.Is(err, syscall.ENOSPC) && v.room.canWait() { // of the disk, less than was promised
			if err := v.journal.pause(ctx); err != nil {
				return err
			}
			continue
		}
		return err
	}
}

const fetchSize = 1 << 20

// fetch copies a file of the remote into the journal as a whole: what is published later
// has to be a whole version, whatever happens to that on the remote meanwhile. So many
// bytes more will be written to it.
func (v *Volume) fetch(ctx context.Context, ino uint64, more int64) error {
	v.journal.mu.Lock()
	n, err := v.journal.node(ino)
	if err != nil || n.Local {
		v.journal.mu.Unlock()
		return err
	}
	f := v.journal.file(ino)
	v.journal.mu.Unlock()
	f.fetch.Lock()
	defer f.fetch.Unlock()
	for {
		err := v.fetchOnce(ctx, ino, more)
		if !errors.Is(err, errAgain) && !errors.Is(err, fs.ErrClosed) {
			return err
		}
		if err := v.journal.pause(ctx); err != nil {
			return err
		}
	}
}

func (v *Volume) fetchOnce(ctx context.Context, ino uint64, more int64) error {
	v.journal.mu.Lock()
	n, err := v.journal.node(ino)
	if err == nil && n.Kind != remote.File {
		err = syscall.EISDIR
	}
	if err != nil || n.Local {
		v.journal.mu.Unlock()
		return err
	}
	size := n.Size
	v.journal.mu.Unlock()
	var s remote.Source
	if size > 0 {
		if s, err = v.source(ctx, ino); err != nil {
			return err
		}
		if err := v.room.wait(ctx, size+more); err != nil {
			return err
		}
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	if n.Size != size || s != nil && n.There && s.Version() != n.Version {
		return errAgain
	}
	if _, err := v.journal.change(meta.Change{Do: meta.DoFetch, Ino: ino}); err != nil {
		return err
	}
	version := n.Version
	for off := int64(0); off < size; {
		p := make([]byte, min(fetchSize, size-off))
		v.journal.mu.Unlock()
		got := 0
		err := v.readSource(ctx, ino, s, func() (err error) { got, err = s.Read(ctx, p, off); return err })
		v.journal.mu.Lock()
		if err != nil {
			return err
		}
		if got == 0 || n.Version != version || v.journal.state.Node(ino) != n || n.Local {
			return errAgain
		}
		r := buffer.Record{Kind: buffer.Data, Flag: meta.FetchedData, Ino: ino, Off: off, Payload: p[:got]}
		if err := v.journal.log.Append(&r); err != nil {
			return &journalError{err}
		}
		v.journal.state.Data(n, r)
		off += int64(got)
		v.misses += int64(got)
	}
	if s != nil {
		if after, err := s.Now(); err != nil || after != s.Version() && n.There && n.Linked() {
			if err == nil {
				err = errAgain
			}
			return err
		}
	}
	_, err = v.journal.change(meta.Change{Do: meta.DoFetched, Ino: ino})
	return err
}

// SetAttr sets permissions, size and time of a node.
func (v *Volume) SetAttr(ctx context.Context, w who, q *calls.Request) (calls.Attr, error) {
	if err := v.names.refresh(ctx, q.Ino, v.tree.Traits().Fresh); err != nil {
		return calls.Attr{}, err
	}
	if q.Valid&calls.SetOwner != 0 {
		v.journal.mu.Lock()
		n, err := v.journal.node(q.Ino)
		if err == nil && (n.UID != q.UID || n.GID != q.GID) {
			err = syscall.EPERM
		}
		v.journal.mu.Unlock()
		if err != nil {
			return calls.Attr{}, err
		}
	}
	v.journal.mu.Lock()
	n, err := v.journal.node(q.Ino)
	if err == nil && q.Valid&(calls.SetMode|calls.SetMtime|calls.SetSize) != 0 && n.Ino != meta.Root {
		err = v.rules.writable(n)
	}
	v.journal.mu.Unlock()
	if err != nil {
		return calls.Attr{}, err
	}
	if q.Valid&calls.SetSize != 0 {
		if err := v.Truncate(ctx, q.Ino, q.Size); err != nil {
			return calls.Attr{}, err
		}
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	if n, err = v.journal.node(q.Ino); err != nil {
		return calls.Attr{}, err
	}
	if q.Valid&(calls.SetMode|calls.SetMtime) != 0 && n.Ino != meta.Root {
		c := meta.Change{Do: meta.DoSetAttr, Ino: q.Ino, Time: now(), Client: w.client, Request: w.request}
		if q.Valid&calls.SetMode != 0 {
			mode := q.Mode & 0o7777
			c.Mode = &mode
		}
		if q.Valid&calls.SetMtime != 0 {
			c.Mtime = &q.Mtime
		}
		if _, err := v.journal.change(c); err != nil {
			return calls.Attr{}, err
		}
		v.journal.report()
	}
	return attr(n), nil
}

// Flush has what was written to a file published in its turn, and returns when that is on
// this host's disk.
func (v *Volume) Flush(ino uint64) error {
	v.journal.mu.Lock()
	n, err := v.journal.node(ino)
	if err != nil {
		v.journal.mu.Unlock()
		return err
	}
	err = v.journal.put(n)
	seq := v.journal.log.Last() // of a file that an earlier process had open
	if f := v.journal.files[ino]; f != nil {
		seq = f.seq
	}
	v.journal.mu.Unlock()
	if err != nil {
		return err
	}
	return v.journal.log.Sync(seq)
}
