package mount

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/locks"
)

// link is the connection with the I/O process. Where that dies it is started again, and
// gets what it has not answered once more: programs only wait.
type link struct {
	c      burst.Config
	binary string
	log    *slog.Logger
	client uint64

	mu      sync.Mutex
	last    uint64 // id of a request
	waiting map[uint64]*waiting
	open    map[uint64]int
	stream  *rpc.Stream // nil while there is none
	locks   *locks.Table
	begun   bool          // there was a session
	dead    bool          // the session is over: everything fails
	over    chan struct{} // closed then
	ending  bool          // the directory is unmounted
	sending sync.Mutex
}

type waiting struct {
	q         *calls.Request
	reply     chan *calls.Reply
	cancelled bool // its end was asked for
	left      bool // nobody waits any more
}

func newLink(c burst.Config, program string, log *slog.Logger) *link {
	var b [8]byte
	rand.Read(b[:])
	c.Spare = true // the node has newer ones
	return &link{
		c: c, binary: program, log: log, client: binary.LittleEndian.Uint64(b[:]) | 1,
		waiting: map[uint64]*waiting{}, open: map[uint64]int{}, locks: locks.New(), over: make(chan struct{}),
	}
}

// connect begins a session, with what is open and unanswered.
func (l *link) connect(ctx context.Context) (*rpc.Peer, error) {
	begin := func() (*rpc.Peer, error) { return l.c.Connect(ctx, l.binary) }
	if l.c.Afar { // it is started on its own host
		begin = func() (*rpc.Peer, error) { return l.c.Dial(ctx) }
	}
	peer, err := begin()
	if err != nil {
		return nil, err
	}
	l.sending.Lock() // requests of others follow what is unanswered
	defer l.sending.Unlock()
	l.mu.Lock()
	hello := calls.Hello{Client: l.client, Afar: l.c.Afar, Again: l.begun, Locks: l.claims()}
	for ino, count := range l.open {
		hello.Open = append(hello.Open, calls.OpenFile{Ino: ino, Count: count})
	}
	l.mu.Unlock()
	stream, welcome, err := rpc.Open(ctx, peer, calls.Files, hello)
	if err == nil && welcome.Over {
		stream.Close()
		err = errOver
	}
	if err != nil {
		peer.Close()
		return nil, err
	}
	l.mu.Lock()
	l.stream, l.begun = stream, true
	var again []*calls.Request
	for _, w := range l.waiting {
		again = append(again, w.q)
		if w.cancelled {
			again = append(again, cancelOf(w.q))
		}
	}
	l.mu.Unlock()
	slices.SortStableFunc(again, func(a, b *calls.Request) int { return int(a.ID) - int(b.ID) }) // far from the bounds
	for _, q := range again {
		if _, err := stream.Write(q.Encode()); err != nil {
			break // reading notices it
		}
	}
	return peer, nil
}

// keep reads replies, and connects again where the connection is lost, until ctx ends.
func (l *link) keep(ctx context.Context, peer *rpc.Peer) {
	pause := fsutil.Backoff{First: 20 * time.Millisecond, Longest: 5 * time.Second}
	if l.c.Shared { // others wait for its locks
		pause.Longest = time.Second
	}
	var lost time.Time
	for {
		if peer != nil {
			l.read()
			peer.Close()
			l.mu.Lock()
			l.stream = nil
			l.mu.Unlock()
			peer, lost = nil, time.Now()
		}
		l.mu.Lock()
		ending := l.ending
		l.mu.Unlock()
		if ctx.Err() != nil || ending {
			return
		}
		var err error
		if peer, err = l.connect(ctx); err == nil {
			l.log.Info("connected again")
			pause.Reset()
			continue
		}
		if errors.Is(err, errOver) || l.c.Afar && time.Since(lost) >= calls.ReturnTime {
			l.log.Error("everything on the volume fails from now on", "err", err)
			l.die()
			return
		}
		l.log.Warn("connect with the I/O process", "err", err, "remedy", core.Remedy(err))
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// leave ends the session, once the directory is unmounted.
func (l *link) leave() {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	l.send(&calls.Request{Op: calls.Bye})
}

// errOver is about a session that the I/O process has ended.
var errOver = errors.New("this host was away for too long, and others may have got its locks")

// die has everything fail from now on.
func (l *link) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for id, w := range l.waiting {
		w.reply <- &calls.Reply{ID: id, Errno: uint32(syscall.EIO)}
	}
	clear(l.waiting)
	close(l.over)
}

func (l *link) read() {
	l.mu.Lock()
	stream := l.stream
	l.mu.Unlock()
	r := bufio.NewReaderSize(stream, 1<<20)
	for {
		p, err := calls.ReadReply(r)
		if err != nil {
			return
		}
		l.mu.Lock()
		w := l.waiting[p.ID]
		var stray *calls.Request
		if w != nil {
			delete(l.waiting, p.ID)
			l.opened(w.q, p)
			if w.left && p.Errno == 0 {
				stray = undo(w.q, p)
			}
		}
		l.mu.Unlock()
		if stray != nil {
			go l.call(nil, 0, stray) //nolint:errcheck // nobody waits for it
		}
		if w != nil {
			w.reply <- p
		}
	}
}

// opened keeps account of what is open, as the I/O process does. Callers hold the lock.
func (l *link) opened(q *calls.Request, p *calls.Reply) {
	switch {
	case p.Errno == 0 && (q.Op == calls.Create || q.Op == calls.OpenOp):
		l.open[p.Attr.Ino]++
	case q.Op == calls.Release:
		if l.open[q.Ino]--; l.open[q.Ino] <= 0 {
			delete(l.open, q.Ino)
		}
	}
	l.locked(q, p)
}

// locked keeps account of what is locked, as the I/O process does. Callers hold the lock.
func (l *link) locked(q *calls.Request, p *calls.Reply) {
	if q.Op == calls.Lock && p.Errno != 0 || l.unlocked(l.locks, q) || q.Op != calls.Lock || q.Flags&calls.Test != 0 {
		return
	}
	is := locks.Lock{Owner: l.owner(q), Start: uint64(q.Off), End: uint64(q.Size), Write: q.Mode == calls.LockWrite, PID: q.PID}
	if err := l.locks.Set(q.Ino, is); err != nil { // there are as many as there can be
		l.log.Warn("note lock", "err", err)
	}
}

func (l *link) owner(q *calls.Request) locks.Owner {
	return locks.Owner{Client: l.client, Number: q.Owner, Whole: q.Flags&calls.Whole != 0}
}

// unlocked releases in a table what a request releases, and reports whether that is what it does.
func (l *link) unlocked(t *locks.Table, q *calls.Request) bool {
	o := l.owner(q)
	switch {
	case q.Op == calls.Flush && q.Flags&calls.Owned != 0:
		o.Whole = false
		t.Unset(q.Ino, o, 0, math.MaxUint64)
	case q.Op == calls.Release && o.Whole:
		t.Unset(q.Ino, o, 0, math.MaxUint64)
	case q.Op == calls.Lock && q.Mode == calls.LockNone && q.Flags&calls.Test == 0 && q.Off >= 0 && q.Size >= q.Off:
		t.Unset(q.Ino, o, uint64(q.Off), uint64(q.Size))
	default:
		return false
	}
	return true
}

// claims gives the locks with which the client comes back. One whose release has no answer may be
// another client's by now, and so may a part of one that becomes a lock for reading. Callers hold the lock.
func (l *link) claims() []locks.Held {
	t := locks.New()
	for _, h := range l.locks.All(l.client) {
		core.BestEffort(t.Set(h.Ino, h.Lock)) // they were in a table of the same size
	}
	for _, w := range l.waiting {
		if l.unlocked(t, w.q) || w.q.Op != calls.Lock || w.q.Mode != calls.LockRead || w.q.Flags&calls.Test != 0 {
			continue
		}
		start, end := uint64(w.q.Off), uint64(w.q.Size) // the kernel's are positive
		for _, h := range t.All(l.client) {
			if h.Ino == w.q.Ino && h.Lock.Owner == l.owner(w.q) && h.Lock.Write && h.Lock.Start <= end && start <= h.Lock.End {
				h.Lock.Write, h.Lock.Start, h.Lock.End = false, max(h.Lock.Start, start), min(h.Lock.End, end)
				core.BestEffort(t.Set(h.Ino, h.Lock)) // one that is not weaker claims no more than before
			}
		}
	}
	return t.All(l.client)
}

// undo gives a request that takes back what one has done of which the kernel does not know; nil: there is nothing.
func undo(q *calls.Request, p *calls.Reply) *calls.Request {
	switch {
	case q.Op == calls.Create, q.Op == calls.OpenOp:
		return &calls.Request{Op: calls.Release, Ino: p.Attr.Ino}
	case q.Op == calls.Lock && q.Flags&calls.Test == 0 && q.Mode != calls.LockNone:
		no := *q
		no.Mode, no.Flags = calls.LockNone, q.Flags&calls.Whole
		return &no
	}
	return nil
}

// call has a request of a thread answered, however long that takes. cancel is closed once
// the thread gets a signal. Files on a local disk interrupt nobody, so that only counts
// where the thread is about to die, or waits for a lock.
func (l *link) call(cancel <-chan struct{}, thread int, q *calls.Request) (*calls.Reply, syscall.Errno) {
	w := &waiting{q: q, reply: make(chan *calls.Reply, 1)}
	// Under one lock: connect sends what waits, and so exactly what was not sent yet.
	l.sending.Lock()
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		l.sending.Unlock()
		return &calls.Reply{}, syscall.EIO
	}
	l.last++
	q.ID = l.last
	l.waiting[q.ID] = w
	l.mu.Unlock()
	l.write(q)
	l.sending.Unlock()
	select {
	case p := <-w.reply:
		return p, syscall.Errno(p.Errno)
	case <-cancel:
	}
	look := time.NewTicker(deathLook)
	defer look.Stop()
	for asked := false; ; {
		if !asked && (q.Op == calls.Lock || dying(thread)) {
			asked = true
			l.mu.Lock()
			w.cancelled = true
			l.mu.Unlock()
			l.send(cancelOf(q))
		}
		select {
		case p := <-w.reply:
			return p, syscall.Errno(p.Errno)
		case <-look.C:
		}
		if asked {
			l.mu.Lock()
			w.left = true
			l.mu.Unlock()
			return &calls.Reply{}, syscall.EINTR // there is no I/O process to report whether it was done
		}
	}
}

// cancelOf asks for the end of a request.
func cancelOf(q *calls.Request) *calls.Request { return &calls.Request{ID: q.ID, Op: calls.Cancel} }

// deathLook is how often a thread that got a signal is looked at, and how long the answer
// to the cancelled request of a dying one is waited for.
const deathLook = 200 * time.Millisecond

// dying reports whether a thread ends once it leaves the kernel: whatever signal that is
// by, SIGKILL is pending then (complete_signal in the kernel's signal.c).
func dying(thread int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && set&(1<<(syscall.SIGKILL-1)|1<<(syscall.SIGQUIT-1)) != 0 {
			return true
		}
	}
	return false
}

func (l *link) send(q *calls.Request) {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.write(q)
}

// write writes a request to the stream, if there is one. Callers hold the lock for sending.
func (l *link) write(q *calls.Request) {
	l.mu.Lock()
	stream := l.stream
	l.mu.Unlock()
	if stream != nil {
		core.BestEffort(stream.Write(q.Encode())) // it is sent again on the next connection
	}
}
