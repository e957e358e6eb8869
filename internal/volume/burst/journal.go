package burst

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/volume/burst/replica"
)

// journal is the journal of a volume with the state that it amounts to, and what the process knows
// beside that. Every change goes through it, under one lock.
type journal struct {
	log    *buffer.Log
	logger *slog.Logger
	wake   chan struct{}   // for the drain: there may be work
	copies *replica.Leader // on other hosts; nil: there are none
	// release frees so many bytes of the disk, and reports whether there were some; nil: there never are.
	release func(bytes int64) bool

	mu       sync.Mutex
	state    *meta.State
	files    map[uint64]*file     // that are open, or being read or fetched
	checked  map[uint64]time.Time // when attributes were compared with the remote's
	removed  map[uint64]time.Time // nodes without a name that are still known
	verified map[buffer.Place]bool
	working  uint64        // operation that is being carried out
	news     chan struct{} // closed when something changed that others wait for
}

// file is what the process knows of a file beside its node.
type file struct {
	count   int            // how often it is open
	opens   map[uint64]int // that, by client
	writers int            // calls that change or fetch it, so that it is not evicted
	source  remote.Source
	fetch   sync.Mutex // one fetch at a time, and no write meanwhile
	seq     uint64     // of the last record about it
	dirty   time.Time  // since when it has what was not queued
}

// openJournal opens the journal in a directory.
func openJournal(place string, o buffer.Options, logger *slog.Logger) (*journal, error) {
	log, state, err := replayed(place, o)
	if err != nil {
		return nil, err
	}
	return &journal{
		log: log, logger: logger, wake: make(chan struct{}, 1), news: make(chan struct{}),
		state: state, files: map[uint64]*file{}, checked: map[uint64]time.Time{}, removed: map[uint64]time.Time{}, verified: map[buffer.Place]bool{},
	}, nil
}

// replayed opens the journal in a directory, and gives the state that it amounts to.
func replayed(place string, o buffer.Options) (*buffer.Log, *meta.State, error) {
	state := meta.New()
	o.Index = func(raw []byte) error {
		s, err := meta.Decode(raw)
		if err == nil {
			state = s
		}
		return err
	}
	o.Replay = func(r buffer.Record) error { return state.Apply(r) }
	log, err := buffer.Open(place, o)
	return log, state, err
}

// change writes a change to the journal, and carries it out. Callers hold the lock, and
// have checked that it can be.
func (j *journal) change(c meta.Change) (uint64, error) {
	raw, err := c.Encode()
	if err != nil {
		return 0, err
	}
	r := buffer.Record{Kind: buffer.Change, Time: c.Time, Payload: raw}
	err = j.log.Append(&r)
	for fsutil.IsFull(err) && j.release != nil && j.release(fetchSize) {
		err = j.log.Append(&r)
	}
	if err != nil {
		return 0, &journalError{err}
	}
	if f := j.files[c.Ino]; f != nil {
		f.seq = r.Seq
	}
	if err := j.state.Change(r.Seq, c); err != nil {
		return 0, &core.Error{Kind: core.Permanent, Op: "change burst buffer", Object: string(c.Do), Err: err}
	}
	return r.Seq, nil
}

// data writes bytes of a file to the journal. Callers hold the lock.
func (j *journal) data(n *meta.Node, off int64, data []byte) error {
	r := buffer.Record{Kind: buffer.Data, Ino: n.Ino, Off: off, Time: now(), Payload: data}
	if err := j.log.Append(&r); err != nil {
		return &journalError{err}
	}
	j.state.Data(n, r)
	j.file(n.Ino).seq = r.Seq
	return nil
}

// report wakes all who wait for a change of the volume. Callers hold the lock.
func (j *journal) report() {
	close(j.news)
	j.news = make(chan struct{})
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// put queues the version of a file as it is now. Callers hold the lock.
func (j *journal) put(n *meta.Node) error {
	if !n.Dirty {
		return nil
	}
	c := meta.Change{Do: meta.DoPut, Ino: n.Ino, Time: now()}
	if last := j.state.LastPut(n.Ino); last != nil && last.Seq != j.working && last.Partial == "" {
		c.Replaces = last.Seq
	}
	_, err := j.change(c)
	if f := j.files[n.Ino]; f != nil {
		f.dirty = time.Time{}
	}
	j.report()
	return err
}

// putAll queues the versions of some files. Callers hold the lock.
func (j *journal) putAll(which func(*meta.Node) bool) error {
	var dirty []*meta.Node
	j.state.Nodes(func(n *meta.Node) {
		if n.Dirty && which(n) {
			dirty = append(dirty, n)
		}
	})
	var errs []error
	for _, n := range dirty {
		errs = append(errs, j.put(n))
	}
	return errors.Join(errs...)
}

// node gives a node. Callers hold the lock.
func (j *journal) node(ino uint64) (*meta.Node, error) {
	n := j.state.Node(ino)
	if n == nil {
		return nil, errStale
	}
	return n, nil
}

// dir gives a directory that has a name. Callers hold the lock.
func (j *journal) dir(ino uint64) (*meta.Node, error) {
	n, err := j.node(ino)
	if err == nil && n.Kind != remote.Dir {
		err = syscall.ENOTDIR
	}
	if err == nil && !n.Linked() {
		err = syscall.ENOENT
	}
	return n, err
}

// file gives what the process knows of a file. Callers hold the lock.
func (j *journal) file(ino uint64) *file {
	f := j.files[ino]
	if f == nil {
		f = &file{}
		j.files[ino] = f
	}
	return f
}

// hold keeps a file from being evicted until release is called.
func (j *journal) hold(ino uint64) (f *file, release func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f = j.file(ino)
	f.writers++
	return f, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if f.writers--; f.writers > 0 || f.count > 0 || j.files[ino] != f {
			return
		}
		if f.source != nil {
			f.source.Close()
		}
		delete(j.files, ino)
	}
}

// opened notes that a client has the file open so many times more, or fewer. Callers hold the lock of the
// journal.
func (f *file) opened(client uint64, times int) {
	if f.opens == nil {
		f.opens = map[uint64]int{}
	}
	was := f.opens[client]
	is := max(was+times, 0)
	f.count += is - was
	if f.opens[client] = is; is == 0 {
		delete(f.opens, client)
	}
}

// errStale is about a node that is gone for good.
var errStale = errors.New("the file is gone")

// made gives what a request has made before its client lost the answer, and reports whether it has. Another
// client may have removed that since.
func (j *journal) made(w who) (a calls.Attr, was bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ino, was := j.state.Answered(w.client, w.request)
	if !was {
		return calls.Attr{}, false, nil
	}
	n, err := j.node(ino)
	if err != nil {
		return calls.Attr{}, true, err
	}
	return attr(n), true, nil
}

// answered reports whether a request was carried out before its client lost the answer.
func (j *journal) answered(w who) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, was := j.state.Answered(w.client, w.request)
	return was
}

// target gives what a link leads to.
func (j *journal) target(ino uint64) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.state.Node(ino); n != nil {
		return []byte(n.Target)
	}
	return nil
}

// read reads from the journal. The first time, the record is compared with its
// checksum.
func (j *journal) read(at buffer.Place, skip int64, p []byte) error {
	j.mu.Lock()
	known := j.verified[at]
	j.mu.Unlock()
	if err := j.log.Read(at, skip, p, !known); err != nil || known {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.verified) > 1<<17 {
		clear(j.verified)
	}
	j.verified[at] = true
	return nil
}

// sync returns when everything that was done so far is on this host's disk, and on those of all copies.
func (j *journal) sync(ctx context.Context) error { return j.safe(ctx, j.log.Last()) }

// safe returns when all records up to that of a number are on this host's disk, and on those of all copies.
func (j *journal) safe(ctx context.Context, seq uint64) error {
	if err := j.log.Sync(seq); err != nil {
		return err
	}
	return j.copies.Confirm(ctx, true)
}

// drained reports whether the remote lacks nothing.
func (j *journal) drained() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.Drained()
}

// pause waits for the drain to do something.
func (j *journal) pause(ctx context.Context) error {
	j.mu.Lock()
	news := j.news
	j.mu.Unlock()
	again := time.NewTimer(time.Second)
	defer again.Stop()
	select {
	case <-news:
		return nil
	case <-again.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// journalError is about the journal, and so nothing of the remote's.
type journalError struct{ error }

func (e *journalError) Unwrap() error { return e.error }
