package burst

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/wire"
)

// linger is how long the process stays without a client or a command, once all is drained.
const linger = 5 * time.Second

// server answers the clients and commands of a volume.
type server struct {
	v     *Volume
	mount string

	mu      sync.Mutex
	peers   int
	idle    time.Time // since when there are none
	session *session
	served  bool // there was a session
}

// session is what a client has open.
type session struct {
	client uint64
	cancel context.CancelFunc
}

// Serve is the I/O process of a volume, until it is drained and nobody uses it, or ctx
// ends. far opens a remote behind ssh, and ready is called once clients are answered.
func Serve(ctx context.Context, c Config, far remote.Opener, log *slog.Logger, ready func()) error {
	lock, err := c.Lock()
	if err != nil {
		return err
	}
	defer lock.Unlock() //nolint:errcheck // it is free once the process ends
	v, err := load(Options{
		ID: c.ID, Remote: c.Remote, At: c.At, Far: far, Place: c.Place, Room: c.Room, Rate: c.Rate, Protect: c.Protect, Local: c.Local, Log: log, Notes: filepath.Join(c.Dir, notesName),
	})
	if err != nil {
		return err
	}
	if err := c.mark(); err != nil {
		return errors.Join(err, v.Close())
	}
	// A remote that is away keeps no volume from its journal, but one that is new.
	claim := func() error { return take(v.tree, c, !v.drained()) }
	err = claim()
	if errors.Is(err, remote.ErrAway) && v.log.Last() > 0 {
		log.Warn("the remote is away", "err", err)
		v.claim, err = claim, nil
	}
	if err != nil {
		return errors.Join(err, v.Close())
	}
	v.begin(ctx)
	s := &server{v: v, mount: c.Mount, idle: time.Now()}
	err = s.serve(ctx, c, log, ready)
	if !v.drained() {
		v.tree.Stop()
	}
	v.halt()
	pause := fsutil.Backoff{First: 100 * time.Millisecond, Longest: 10 * time.Second}
	for err == nil && v.drained() {
		if err = leave(v.tree, c); !errors.Is(err, remote.ErrAway) || pause.Wait(ctx) != nil {
			break
		}
		err = nil
	}
	return errors.Join(err, v.Close())
}

func (s *server) serve(ctx context.Context, c Config, log *slog.Logger, ready func()) error {
	listener, err := c.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	calls := s.calls(log)
	go new(wire.Gate).Serve(listener, func(conn net.Conn, known func() bool) {
		if known() { // the socket is in a directory of its user's own
			s.answer(ctx, conn, calls)
		}
	})
	ready()
	return s.untilDone(ctx)
}

// untilDone waits until nothing is left to do.
func (s *server) untilDone(ctx context.Context) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	begun, orphans := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		s.mu.Lock()
		alone, gone := s.peers == 0, s.session == nil
		long := s.served || time.Since(s.idle) > linger
		s.mu.Unlock()
		if !orphans && gone && time.Since(begun) > linger {
			orphans = true // no client of an earlier process has come back
			if err := s.v.Adopt(nil); err != nil {
				return err
			}
		}
		if alone && long && s.v.drained() {
			return nil
		}
	}
}

func (s *server) answer(ctx context.Context, conn net.Conn, table *rpc.Server) {
	s.mu.Lock()
	s.peers++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.peers--
		s.idle = time.Now()
	}()
	peer, err := rpc.NewPeer(conn, false, "a client of the volume", wire.Local, calls.Protocol)
	if err != nil {
		conn.Close()
		return
	}
	defer peer.Close()
	peer.Serve(ctx, table, rpc.Caller{Role: rpc.Controller, Rank: -1}) //nolint:errcheck // the other end has gone
}

func (s *server) calls(log *slog.Logger) *rpc.Server {
	table := rpc.NewServer(log)
	rpc.Handle(table, calls.StatusCall, func(context.Context, rpc.Caller, rpc.None) (calls.Status, error) {
		status := s.v.Status()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.session != nil {
			status.Mount = s.mount
		}
		return status, nil
	})
	rpc.Handle(table, calls.Publish, func(context.Context, rpc.Caller, rpc.None) (calls.Published, error) {
		last, err := s.v.PublishAll()
		return calls.Published{Last: last}, err
	})
	rpc.Handle(table, calls.IndexCall, func(_ context.Context, _ rpc.Caller, q calls.IndexRequest) (calls.IndexReply, error) {
		return s.v.Index(q), nil
	})
	rpc.HandleStream(table, calls.Files, s.files)
	return table
}

// files is the session of a client.
func (s *server) files(ctx context.Context, _ rpc.Caller, hello calls.Hello, a rpc.Answer[rpc.None]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mine := &session{client: hello.Client, cancel: cancel}
	s.mu.Lock()
	if before := s.session; before != nil && before.client != hello.Client {
		s.mu.Unlock()
		return &core.Error{Kind: core.Busy, Op: "use volume", Err: errors.New("another client has it mounted")}
	} else if before != nil {
		before.cancel()
	}
	s.session = mine
	err := s.v.Adopt(hello.Open)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	requests(ctx, s.v, hello.Client, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != mine {
		return nil
	}
	s.session, s.served = nil, true
	return s.v.Adopt(nil)
}

// Adopt makes the files open that a client reports as open. What nobody has open any
// more is published, or forgotten.
func (v *Volume) Adopt(open []calls.OpenFile) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for ino, f := range v.files {
		f.count = 0
		if f.source != nil && f.writers == 0 {
			f.source.Close()
			f.source = nil
		}
		if f.writers == 0 {
			delete(v.files, ino)
		}
	}
	for _, o := range open {
		if n := v.state.Node(o.Ino); n != nil && o.Count > 0 {
			f := v.file(o.Ino)
			f.count = o.Count
			if n.Dirty {
				f.dirty = time.Now()
			}
			f.seq = v.log.Last()
		}
	}
	err := v.putAll(func(n *meta.Node) bool { return v.files[n.Ino] == nil })
	v.state.Nodes(func(n *meta.Node) {
		if !n.Linked() && v.removed[n.Ino].IsZero() {
			v.removed[n.Ino] = time.Now()
		}
	})
	if open == nil {
		v.forgetAll(0)
	}
	return err
}

// requests answers the requests of a client, each beside the others, until its stream or
// ctx ends, and returns when all have ended.
func requests(ctx context.Context, v *Volume, client uint64, stream io.ReadWriter) {
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
			p := v.answer(one, client, q)
			mu.Lock()
			delete(cancels, q.ID)
			mu.Unlock()
			cancel()
			if ctx.Err() != nil {
				return // the process or session ends: the client sends the request again
			}
			writing.Lock()
			defer writing.Unlock()
			stream.Write(p.Encode()) //nolint:errcheck // reading notices the end of the stream
		})
	}
}

func (v *Volume) answer(ctx context.Context, client uint64, q *calls.Request) *calls.Reply {
	p := &calls.Reply{}
	err := core.Caught(func() error { return v.do(ctx, who{client, q.ID}, q, p) })
	if err != nil {
		p = &calls.Reply{Errno: v.errno(ctx, q, err)}
	}
	p.ID = q.ID
	return p
}

// errno gives an error as the program sees it.
func (v *Volume) errno(ctx context.Context, q *calls.Request, err error) uint32 {
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
	v.o.Log.Error("answer request", "op", q.Op, "ino", q.Ino, "err", err)
	return uint32(syscall.EIO)
}

func (v *Volume) do(ctx context.Context, w who, q *calls.Request, p *calls.Reply) (err error) {
	switch q.Op {
	case calls.Lookup:
		if p.Attr, err = v.Lookup(ctx, q.Ino, q.Name); err == nil && p.Attr.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			p.Data = v.target(p.Attr.Ino)
		}
	case calls.GetAttr:
		if p.Attr, err = v.GetAttr(ctx, q.Ino); err == nil && p.Attr.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			p.Data = v.target(p.Attr.Ino)
		}
	case calls.SetAttr:
		p.Attr, err = v.SetAttr(ctx, w, q)
	case calls.Create:
		p.Attr, err = v.Make(ctx, w, remote.File, q)
		if errors.Is(err, syscall.EEXIST) && q.Flags&calls.Exclusive == 0 {
			p.Attr, err = v.Lookup(ctx, q.Ino, q.Name)
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
			err = v.Sync()
		}
	case calls.List:
		p.Entries, err = v.List(ctx, q.Ino)
	case calls.Space:
		p.Total, p.Free, err = v.tree.Space()
	default:
		err = syscall.ENOSYS
	}
	return err
}

func (v *Volume) target(ino uint64) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := v.state.Node(ino); n != nil {
		return []byte(n.Target)
	}
	return nil
}
