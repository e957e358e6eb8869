package burst

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// OpenFile notes that a client opens a file. What the remote has of it is looked at again.
func (v *Volume) OpenFile(ctx context.Context, w who, ino uint64, truncate bool) (calls.Attr, error) {
	look := readsOf(v).looked
	if truncate {
		look = func(ctx context.Context, ino uint64) error { return v.names.refresh(ctx, ino, 0) }
	}
	if err := look(ctx, ino); err != nil {
		return calls.Attr{}, err
	}
	v.journal.mu.Lock()
	_, err := v.journal.node(ino)
	if err == nil {
		v.journal.file(ino).opened(w.client, 1) // before it is truncated: an empty version is not published by itself
	}
	v.journal.mu.Unlock()
	if err != nil {
		return calls.Attr{}, err
	}
	if truncate {
		if err := v.resize(ctx, w, ino, 0, false); err != nil {
			return calls.Attr{}, errors.Join(err, v.Release(w.client, ino, 1))
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
func (v *Volume) open(ctx context.Context, w who, ino uint64, flags uint8) (calls.Attr, error) {
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
	return v.OpenFile(ctx, w, ino, flags&calls.Truncate != 0)
}

// create makes a file and opens it, or the one that has the name. That is emptied once, also where the
// request comes again: its truncation answers it as the making of a file does.
func (v *Volume) create(ctx context.Context, w who, q *calls.Request) (calls.Attr, error) {
	flags := q.Flags &^ calls.Truncate // a new file is empty, and so is one that was emptied before
	a, err := v.Make(ctx, w, remote.File, q)
	if errors.Is(err, syscall.EEXIST) && q.Flags&calls.Exclusive == 0 {
		a, err = v.names.Lookup(ctx, q.Ino, q.Name)
		flags = q.Flags
	}
	if err != nil {
		return calls.Attr{}, err
	}
	return v.open(ctx, w, a.Ino, flags)
}

// Release notes that a client has closed a file so many times.
func (v *Volume) Release(client, ino uint64, times int) error {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	n, f := v.journal.state.Node(ino), v.journal.files[ino]
	if n == nil || f == nil {
		return nil
	}
	f.opened(client, -times)
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
		version := n.Version
		v.journal.mu.Unlock()
		asked := time.Now()
		opened, err := v.tree.Open(where)
		var e remote.Entry
		var serr error
		if err == nil && opened.Version() != version {
			e, serr = v.tree.Stat(where)
		}
		v.journal.mu.Lock()
		if err != nil {
			return err
		}
		if opened.Version() != version && n.Version == version && n.Clean() {
			if err := v.names.reconcile(n, e, serr, asked); err != nil {
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
	if !n.Local && readsOf(v).cached(n) {
		version := n.Version
		v.journal.mu.Unlock()
		return readsOf(v).readCached(ctx, ino, version, off, end-off)
	}
	p := make([]byte, end-off)
	if !n.Local {
		v.traffic.miss(len(p))
		v.journal.mu.Unlock()
		s, err := v.source(ctx, ino)
		if err != nil {
			return nil, err
		}
		got := 0
		err = v.readSource(ctx, ino, s, func() error { got, err = s.Read(ctx, p, off); return err })
		return p[:got], err
	}
	v.traffic.hit(len(p))
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
		delete(v.journal.checked, ino)
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
		return v.journal.data(n, off, data)
	})
}

// Append writes bytes at the end of a file, wherever that is by then. A request that was carried out
// before its client lost the answer writes the same bytes again.
func (v *Volume) Append(ctx context.Context, w who, ino uint64, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if len(data) > calls.MaxData {
		return syscall.EFBIG
	}
	return v.written(ctx, ino, true, int64(len(data)), func(n *meta.Node) error {
		at, was := v.journal.state.Answered(w.client, w.request)
		if off := n.Size; !was {
			if off > math.MaxInt64-int64(len(data)) {
				return syscall.EFBIG
			}
			if _, err := v.journal.change(meta.Change{Do: meta.DoTruncate, Ino: ino, Size: off + int64(len(data)), Time: now(), Client: w.client, Request: w.request}); err != nil {
				return err
			}
			at = uint64(off) // never negative
		}
		return v.journal.data(n, int64(at), data) // it was a size
	})
}

// resize sets the size of a file. One that only grows stays as it is where it is large enough. A request
// that was carried out before its client lost the answer changes nothing: others may have written since.
func (v *Volume) resize(ctx context.Context, w who, ino uint64, size int64, grow bool) error {
	if size < 0 {
		return syscall.EINVAL
	}
	return v.written(ctx, ino, size > 0, 0, func(n *meta.Node) error {
		if _, was := v.journal.state.Answered(w.client, w.request); was || n.Size == size && n.Local && size > 0 || grow && n.Size >= size {
			return nil
		}
		_, err := v.journal.change(meta.Change{Do: meta.DoTruncate, Ino: ino, Size: size, Time: now(), Client: w.client, Request: w.request})
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
	v.journal.mu.Unlock()
	f, release := v.journal.hold(ino)
	defer release()
	waited := time.Duration(0) // for room
	for {
		if stays {
			if err := v.fetch(ctx, ino, bytes); err != nil {
				return err
			}
		}
		begun := time.Now()
		if err := v.room.wait(ctx, bytes); err != nil {
			return err
		}
		waited += time.Since(begun)
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
			if !stays {
				readsOf(v).forget(ino)
			}
			v.traffic.write(bytes, waited)
			switch {
			case f.count == 0: // nobody will close it
				err = v.journal.put(n)
			case f.dirty.IsZero():
				f.dirty = time.Now()
			}
		}
		v.journal.mu.Unlock()
		if fsutil.IsFull(err) && v.room.release(bytes+fetchSize) { // of the disk, or of a quota, less than was promised
			continue
		}
		if fsutil.IsFull(err) {
			if err := v.room.drains(); err != nil {
				return err
			}
			begun := time.Now()
			if err := v.journal.pause(ctx); err != nil {
				return err
			}
			waited += time.Since(begun)
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
	v.journal.mu.Unlock()
	f, release := v.journal.hold(ino) // else what is here of it might go before the rest comes
	defer release()
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
	if len(n.Extents) > 0 { // of a fetch that was interrupted
		if _, err := v.journal.change(meta.Change{Do: meta.DoEvict, Ino: ino}); err != nil {
			v.journal.mu.Unlock()
			return err
		}
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
		v.journal.mu.Unlock()
		p, again, err := readsOf(v).readWhole(ctx, ino, s, off, min(fetchSize, size-off))
		v.journal.mu.Lock()
		if err != nil {
			return err
		}
		got := len(p)
		if got == 0 || n.Version != version || v.journal.state.Node(ino) != n || n.Local {
			return errAgain
		}
		r := buffer.Record{Kind: buffer.Data, Flag: meta.FetchedData, Ino: ino, Off: off, Payload: p[:got]}
		if err := v.journal.log.Append(&r); err != nil {
			return &journalError{err}
		}
		v.journal.state.Data(n, r)
		off += int64(got)
		readsOf(v).passed(ino, off) // the journal has it
		v.traffic.miss(got - int(again))
	}
	if s != nil {
		var after remote.Version
		v.journal.mu.Unlock() // others need not wait for the remote
		err := v.readSource(ctx, ino, s, func() (err error) { after, err = s.Now(); return err })
		v.journal.mu.Lock()
		if err != nil {
			return err
		}
		if n.Version != version || v.journal.state.Node(ino) != n || n.Local || after != s.Version() && n.There && n.Linked() {
			return errAgain
		}
	}
	readsOf(v).forget(ino) // its last block
	_, err = v.journal.change(meta.Change{Do: meta.DoFetched, Ino: ino})
	return err
}

// SetAttr sets permissions, size and time of a node.
func (v *Volume) SetAttr(ctx context.Context, w who, q *calls.Request) (calls.Attr, error) {
	if err := v.names.refresh(ctx, q.Ino, whileFresh); err != nil {
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
		if err := v.resize(ctx, w, q.Ino, q.Size, q.Flags&calls.Grow != 0); err != nil {
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
