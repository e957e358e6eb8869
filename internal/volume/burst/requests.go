package burst

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// handler carries out the requests of a client.
type handler struct {
	volume *Volume
	client uint64
}

// serve answers requests, each beside the others, until their stream or ctx ends, and returns when
// all have ended.
func (h *handler) serve(ctx context.Context, stream io.ReadWriter) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var mu sync.Mutex
	cancels := map[uint64]context.CancelFunc{}
	var writing sync.Mutex
	r := bufio.NewReaderSize(stream, 1<<20)
	for ctx.Err() == nil {
		q, err := calls.ReadRequest(r)
		if err != nil {
			return
		}
		if q.Op == calls.Cancel {
			mu.Lock()
			if cancel := cancels[q.ID]; cancel != nil {
				cancel()
			}
			mu.Unlock()
			continue
		}
		one, cancel := context.WithCancel(ctx)
		mu.Lock()
		cancels[q.ID] = cancel
		mu.Unlock()
		all.Go(func() {
			p := h.answer(one, q)
			mu.Lock()
			delete(cancels, q.ID)
			mu.Unlock()
			cancel()
			if ctx.Err() != nil {
				return // the process or session ends: the client sends the request again
			}
			writing.Lock()
			defer writing.Unlock()
			core.BestEffort(stream.Write(p.Encode())) // reading notices the end of the stream
		})
	}
}

// answer carries a request out, and gives what its client gets.
func (h *handler) answer(ctx context.Context, q *calls.Request) *calls.Reply {
	p := &calls.Reply{}
	err := core.Caught(func() error { return h.do(ctx, who{h.client, q.ID}, q, p) })
	if err != nil {
		p = &calls.Reply{Errno: h.errno(ctx, q, err)}
	}
	p.ID = q.ID
	return p
}

// errno gives an error as the program sees it.
func (h *handler) errno(ctx context.Context, q *calls.Request, err error) uint32 {
	var e syscall.Errno
	switch {
	case ctx.Err() != nil:
		return uint32(syscall.EINTR)
	case errors.Is(err, errStale):
		return uint32(syscall.ESTALE)
	case errors.As(err, &e):
		return uint32(e)
	case errors.Is(err, fs.ErrNotExist):
		return uint32(syscall.ENOENT)
	case errors.Is(err, fs.ErrPermission):
		return uint32(syscall.EACCES)
	case errors.Is(err, fsutil.ErrNotPlain), errors.Is(err, fsutil.ErrOutside):
		return uint32(syscall.ELOOP)
	}
	h.volume.o.Log.Error("answer request", "op", q.Op, "ino", q.Ino, "err", err)
	return uint32(syscall.EIO)
}

// do carries a request out.
func (h *handler) do(ctx context.Context, w who, q *calls.Request, p *calls.Reply) (err error) {
	v := h.volume
	switch q.Op {
	case calls.Lookup:
		if p.Attr, err = v.names.Lookup(ctx, q.Ino, q.Name); err == nil && p.Attr.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			p.Data = v.journal.target(p.Attr.Ino)
		}
	case calls.GetAttr:
		if p.Attr, err = v.names.GetAttr(ctx, q.Ino); err == nil && p.Attr.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			p.Data = v.journal.target(p.Attr.Ino)
		}
	case calls.SetAttr:
		p.Attr, err = v.SetAttr(ctx, w, q)
	case calls.Create:
		p.Attr, err = v.Make(ctx, w, remote.File, q)
		if errors.Is(err, syscall.EEXIST) && q.Flags&calls.Exclusive == 0 {
			p.Attr, err = v.names.Lookup(ctx, q.Ino, q.Name)
		}
		if err == nil {
			p.Attr, err = v.open(ctx, p.Attr.Ino, q.Flags)
		}
	case calls.Mkdir:
		p.Attr, err = v.Make(ctx, w, remote.Dir, q)
	case calls.Symlink:
		p.Attr, err = v.Make(ctx, w, remote.Link, q)
	case calls.Remove:
		err = v.Remove(ctx, w, q)
	case calls.Rename:
		err = v.Rename(ctx, w, q)
	case calls.OpenOp:
		p.Attr, err = v.open(ctx, q.Ino, q.Flags)
	case calls.Release:
		err = v.Release(q.Ino, 1)
	case calls.Read:
		p.Data, err = v.Read(ctx, q.Ino, q.Off, q.Size)
	case calls.Write:
		err = v.Write(ctx, q.Ino, q.Off, q.Data)
	case calls.Flush:
		err = v.Flush(q.Ino)
	case calls.Fsync:
		if err = v.Flush(q.Ino); err == nil {
			err = v.journal.sync()
		}
	case calls.List:
		p.Entries, err = v.names.List(ctx, q.Ino)
	case calls.Space:
		p.Total, p.Free, err = v.tree.Space()
	default:
		err = syscall.ENOSYS
	}
	return err
}
