package mount

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
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
	sending sync.Mutex
}

type waiting struct {
	q     *calls.Request
	reply chan *calls.Reply
	left  bool // nobody waits any more
}

func newLink(c burst.Config, program string, log *slog.Logger) *link {
	var b [8]byte
	rand.Read(b[:])
	return &link{
		c: c, binary: program, log: log, client: binary.LittleEndian.Uint64(b[:]) | 1,
		waiting: map[uint64]*waiting{}, open: map[uint64]int{},
	}
}

// connect begins a session, with what is open and unanswered.
func (l *link) connect(ctx context.Context) (*rpc.Peer, error) {
	peer, err := l.c.Connect(ctx, l.binary)
	if err != nil {
		return nil, err
	}
	l.sending.Lock() // requests of others follow what is unanswered
	defer l.sending.Unlock()
	l.mu.Lock()
	hello := calls.Hello{Client: l.client}
	for ino, count := range l.open {
		hello.Open = append(hello.Open, calls.OpenFile{Ino: ino, Count: count})
	}
	l.mu.Unlock()
	stream, _, err := rpc.Open(ctx, peer, calls.Files, hello)
	if err != nil {
		peer.Close()
		return nil, err
	}
	l.mu.Lock()
	l.stream = stream
	var again []*calls.Request
	for _, w := range l.waiting {
		again = append(again, w.q)
	}
	l.mu.Unlock()
	slices.SortFunc(again, func(a, b *calls.Request) int { return int(a.ID) - int(b.ID) }) // far from the bounds
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
	for {
		if peer != nil {
			l.read()
			peer.Close()
			l.mu.Lock()
			l.stream = nil
			l.mu.Unlock()
			peer = nil
		}
		if ctx.Err() != nil {
			return
		}
		var err error
		if peer, err = l.connect(ctx); err == nil {
			l.log.Info("connected again")
			pause.Reset()
			continue
		}
		l.log.Warn("connect with the I/O process", "err", err, "remedy", core.Remedy(err))
		if pause.Wait(ctx) != nil {
			return
		}
	}
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
		stray := false
		if w != nil {
			delete(l.waiting, p.ID)
			l.opened(w.q, p)
			stray = w.left && p.Errno == 0 && (w.q.Op == calls.Create || w.q.Op == calls.OpenOp)
		}
		l.mu.Unlock()
		if stray { // the kernel knows of no open file
			go l.call(nil, 0, &calls.Request{Op: calls.Release, Ino: p.Attr.Ino}) //nolint:errcheck // nobody waits for it
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
}

// call has a request of a thread answered, however long that takes. cancel is closed once
// the thread gets a signal. Files on a local disk interrupt nobody, so that only counts
// where the thread is about to die.
func (l *link) call(cancel <-chan struct{}, thread int, q *calls.Request) (*calls.Reply, syscall.Errno) {
	w := &waiting{q: q, reply: make(chan *calls.Reply, 1)}
	// Under one lock: connect sends what waits, and so exactly what was not sent yet.
	l.sending.Lock()
	l.mu.Lock()
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
		if !asked && dying(thread) {
			asked = true
			l.send(&calls.Request{ID: q.ID, Op: calls.Cancel})
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
