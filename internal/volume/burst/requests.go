package burst

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/locks"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// handler carries out the requests of a client.
type handler struct {
	volume *Volume
	client uint64
	done   *repeats // nil: the client sends nothing twice
	bye    func()   // called where the client ends its session; nil: nobody cares
}

const (
	// mostRequests bounds the requests of a client that are carried out at once, and mostHeavy those
	// that have, or ask for, content. More wait in the connection.
	mostRequests = mostWaits + 1024
	mostHeavy    = 256
)

// remembered is how many answers are known, the newest ones. A request may have waited for long, so that
// its number is no sign of the age of its answer.
const remembered = 4 * mostRequests

// repeats are the last answers to requests that must not be carried out twice: another client may have
// changed the file since.
type repeats struct {
	mu      sync.Mutex
	replies map[uint64]*calls.Reply
	order   []uint64 // of the answers
}

func newRepeats() *repeats { return &repeats{replies: map[uint64]*calls.Reply{}} }

// changes reports whether a request changes what others see.
func changes(q *calls.Request) bool {
	switch q.Op {
	case calls.Write, calls.SetAttr, calls.Create, calls.Mkdir, calls.Symlink, calls.Remove, calls.Rename:
		return true
	case calls.OpenOp:
		return q.Flags&calls.Truncate != 0
	}
	return false
}

func (r *repeats) get(id uint64) *calls.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replies[id]
}

func (r *repeats) put(id uint64, p *calls.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replies[id], r.order = p, append(r.order, id)
	if len(r.order) > remembered {
		delete(r.replies, r.order[0])
		r.order = r.order[1:]
	}
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
	slots, heavy := make(chan struct{}, mostRequests), make(chan struct{}, mostHeavy)
	r := bufio.NewReaderSize(stream, 1<<20)
	for ctx.Err() == nil {
		q, err := calls.ReadRequest(r)
		if err != nil {
			return
		}
		if q.Op == calls.Bye {
			if h.bye != nil {
				h.bye()
			}
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
		taken := []chan struct{}{slots}
		if len(q.Data) > 0 || q.Op == calls.Read || q.Op == calls.List {
			taken = append(taken, heavy)
		}
		for _, c := range taken {
			select {
			case c <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		one, cancel := context.WithCancel(ctx)
		mu.Lock()
		cancels[q.ID] = cancel
		mu.Unlock()
		all.Go(func() {
			defer func() {
				for _, c := range taken {
					<-c
				}
			}()
			p := h.answer(one, q)
			mu.Lock()
			delete(cancels, q.ID)
			mu.Unlock()
			cancel()
			// Whatever the answer shows, each copy has: the one that leads next answers the same.
			if h.volume.journal.copies.Confirm(ctx, q.Op == calls.Flush || q.Op == calls.Fsync) != nil || ctx.Err() != nil {
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
	once := h.done != nil && changes(q)
	do := func(p *calls.Reply) error { return h.do(ctx, who{h.client, q.ID}, q, p) }
	if once {
		before := h.done.get(q.ID)
		if before != nil && (before.Errno != 0 || q.Op != calls.Create && q.Op != calls.OpenOp) {
			return before
		}
		if before != nil { // what a client has open was counted again, without this file
			once = false
			do = func(p *calls.Reply) (err error) {
				p.Attr, err = h.volume.open(ctx, who{h.client, q.ID}, before.Attr.Ino, q.Flags&^calls.Truncate)
				return err
			}
		}
	}
	p := &calls.Reply{}
	if err := core.Caught(func() error { return do(p) }); err != nil {
		p = &calls.Reply{Errno: h.errno(ctx, q, err)}
	}
	p.ID = q.ID
	if once && (ctx.Err() == nil || p.Errno == 0) { // else the end of the connection may be why it failed
		h.done.put(q.ID, p)
	}
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
		p.Attr, err = v.create(ctx, w, q)
	case calls.Mkdir:
		p.Attr, err = v.Make(ctx, w, remote.Dir, q)
	case calls.Symlink:
		p.Attr, err = v.Make(ctx, w, remote.Link, q)
	case calls.Remove:
		err = v.Remove(ctx, w, q)
	case calls.Rename:
		err = v.Rename(ctx, w, q)
	case calls.OpenOp:
		p.Attr, err = v.open(ctx, w, q.Ino, q.Flags)
	case calls.Release:
		if q.Flags&calls.Whole != 0 {
			v.locks.release(q.Ino, locks.Owner{Client: w.client, Number: q.Owner, Whole: true}, 0, math.MaxUint64)
		}
		err = v.Release(w.client, q.Ino, 1)
	case calls.Read:
		p.Data, err = v.Read(ctx, q.Ino, q.Off, q.Size)
	case calls.Write:
		if q.Flags&calls.Append != 0 {
			err = v.Append(ctx, w, q.Ino, q.Data)
		} else {
			err = v.Write(ctx, q.Ino, q.Off, q.Data)
		}
	case calls.Flush:
		if err = v.Flush(q.Ino); err == nil {
			err = v.accepted(q.Ino)
		}
		if q.Flags&calls.Owned != 0 { // programs see locks go once the data are safe
			v.locks.release(q.Ino, locks.Owner{Client: w.client, Number: q.Owner}, 0, math.MaxUint64)
		}
	case calls.Lock:
		err = v.lock(ctx, w, q, p)
	case calls.Fsync:
		if err = v.Flush(q.Ino); err == nil {
			err = v.journal.log.Sync(v.journal.log.Last())
		}
		if err == nil {
			err = v.accepted(q.Ino)
		}
	case calls.List:
		p.Entries, err = v.names.List(ctx, q.Ino)
	case calls.Space:
		err = retried(ctx, func() (err error) { p.Total, p.Free, err = v.tree.Space(); return err })
	default:
		err = syscall.ENOSYS
	}
	return err
}
