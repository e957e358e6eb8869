// Package burst is the I/O process of a burst buffer: it keeps what clients write in a
// journal on this host's disk, answers their reads, and drains everything to the remote,
// in order. Its parts have rooms of their own: buffer is the journal, meta what it amounts
// to, remote the directory that is drained to, drain a change there, digest what a check
// compares, calls what clients send, and mount the client.
package burst

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Options of a Volume.
type Options struct {
	// ID distinguishes the volume from others of the same remote.
	ID string
	// Remote names what is drained to in messages, and At is where that is; the directory of
	// that name, if At is empty.
	Remote string
	At     remote.Place
	// Far opens a directory of a host behind ssh.
	Far remote.Opener
	// Place is the directory of the journal, and Notes that of notes on uploads to a bucket.
	Place, Notes string
	// Room bounds the bytes of the journal.
	Room int64
	// Rate bounds the bytes per second to and from the remote; 0: no bound.
	Rate int64
	// Protect is whether what was found on the remote is neither changed nor removed.
	Protect bool
	// Local are directories, from the top directory on, that the remote never gets.
	Local []string
	Log   *slog.Logger

	segmentSize  int64         // 0: the usual one
	publishEvery time.Duration // 0: publishInterval
	faults       func(drain.Remote) drain.Remote
}

const (
	// publishInterval is after what time a file that stays open is published.
	publishInterval = 30 * time.Second
	// syncInterval bounds what a host that dies loses of data that nobody has synced.
	syncInterval = time.Second
)

// Volume is a burst buffer that is open.
type Volume struct {
	o    Options
	log  *buffer.Log
	tree remote.Remote
	sink drain.Remote // the remote, as the drain uses it

	// names is held while names on the remote are read, and exclusively while they
	// change: it is taken before mu.
	names sync.RWMutex

	mu       sync.Mutex
	state    *meta.State
	files    map[uint64]*file     // that are open, or being read or fetched
	checked  map[uint64]time.Time // when attributes were compared with the remote's
	removed  map[uint64]time.Time // nodes without a name that are still known
	verified map[buffer.Place]bool
	working  uint64 // operation that is being carried out
	// inherited is the operation that an earlier process or try may have begun: whether the remote has
	// carried it out is not known.
	inherited uint64
	waits     error         // what the drain waits for
	claim     func() error  // what has to succeed before anything is drained; nil: it has
	perSec    float64       // of the drain
	news      chan struct{} // closed when something changed that others wait for
	hits      int64
	misses    int64

	wake   chan struct{}
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// file is what the process knows of a file beside its node.
type file struct {
	count   int // how often it is open
	writers int // calls that are changing it
	source  remote.Source
	fetch   sync.Mutex // one fetch at a time, and no write meanwhile
	seq     uint64     // of the last record about it
	dirty   time.Time  // since when it has what was not queued
}

// load opens a volume with what its journal has of an earlier process. Nothing is drained
// until begin.
func load(o Options) (*Volume, error) {
	if o.publishEvery == 0 {
		o.publishEvery = publishInterval
	}
	if o.segmentSize == 0 {
		o.segmentSize = max(min(buffer.SegmentSize, o.Room/16), 1<<20)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	log, state, err := replayed(o.Place, o.segmentSize)
	if err != nil {
		return nil, err
	}
	tree, err := opened(o.At, o.Remote, o.Far, remote.Options{Volume: o.ID, Rate: o.Rate, Notes: o.Notes})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	v := &Volume{
		o: o, log: log, tree: tree, state: state, files: map[uint64]*file{}, checked: map[uint64]time.Time{}, removed: map[uint64]time.Time{}, verified: map[buffer.Place]bool{},
		news: make(chan struct{}), wake: make(chan struct{}, 1), sink: tree, cancel: func() {},
	}
	if first := state.First(); first != nil {
		v.inherited = first.Seq
	}
	if o.faults != nil {
		v.sink = o.faults(tree)
	}
	return v, nil
}

// opened opens a remote: the directory name, if at is empty.
func opened(at remote.Place, name string, far remote.Opener, o remote.Options) (remote.Remote, error) {
	if at.None() {
		at.Dir = name
	}
	if at.Host != "" && far != nil {
		return far(at, o)
	}
	return remote.Open(at, o)
}

// begin drains the volume from now on, until Close or the end of ctx.
func (v *Volume) begin(ctx context.Context) {
	ctx, v.cancel = context.WithCancel(ctx)
	v.all.Go(func() { v.drainAll(ctx) })
	v.all.Go(func() { v.tick(ctx) })
}

// halt ends the work.
func (v *Volume) halt() {
	v.cancel()
	v.all.Wait()
}

// Close ends the work, and leaves in the journal what is undrained.
func (v *Volume) Close() error {
	v.cancel()
	v.tree.Stop()
	v.all.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.files {
		if f.source != nil {
			f.source.Close()
		}
	}
	return errors.Join(v.log.Sync(v.log.Last()), v.log.Close(), v.tree.Close())
}

// change writes a change to the journal, and carries it out. Callers hold the lock, and
// have checked that it can be.
func (v *Volume) change(c meta.Change) (uint64, error) {
	raw, err := c.Encode()
	if err != nil {
		return 0, err
	}
	r := buffer.Record{Kind: buffer.Change, Time: c.Time, Payload: raw}
	if err := v.log.Append(&r); err != nil {
		return 0, &journalError{err}
	}
	if f := v.files[c.Ino]; f != nil {
		f.seq = r.Seq
	}
	if err := v.state.Change(r.Seq, c); err != nil {
		return 0, &core.Error{Kind: core.Permanent, Op: "change burst buffer", Object: string(c.Do), Err: err}
	}
	return r.Seq, nil
}

// report wakes all who wait for a change of the volume. Callers hold the lock.
func (v *Volume) report() {
	close(v.news)
	v.news = make(chan struct{})
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// put queues the version of a file as it is now. Callers hold the lock.
func (v *Volume) put(n *meta.Node) error {
	if !n.Dirty {
		return nil
	}
	c := meta.Change{Do: meta.DoPut, Ino: n.Ino, Time: now()}
	if last := v.state.LastPut(n.Ino); last != nil && last.Seq != v.working && last.Partial == "" {
		c.Replaces = last.Seq
	}
	_, err := v.change(c)
	if f := v.files[n.Ino]; f != nil {
		f.dirty = time.Time{}
	}
	v.report()
	return err
}

// PublishAll queues what was written to files, open ones included. It returns the number of the newest
// change.
func (v *Volume) PublishAll() (uint64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	err := v.putAll(func(*meta.Node) bool { return true })
	return v.log.Last(), err
}

func (v *Volume) putAll(which func(*meta.Node) bool) error {
	var dirty []*meta.Node
	v.state.Nodes(func(n *meta.Node) {
		if n.Dirty && which(n) {
			dirty = append(dirty, n)
		}
	})
	var errs []error
	for _, n := range dirty {
		errs = append(errs, v.put(n))
	}
	return errors.Join(errs...)
}

// file gives what the process knows of a file. Callers hold the lock.
func (v *Volume) file(ino uint64) *file {
	f := v.files[ino]
	if f == nil {
		f = &file{}
		v.files[ino] = f
	}
	return f
}

// Status describes the volume.
func (v *Volume) Status() calls.Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := Describe(v.state)
	s.ID, s.Remote, s.Place, s.Room, s.Buffer = v.o.ID, v.o.Remote, v.o.Place, v.o.Room, v.log.Size()
	s.BytesPerSecond, s.Hits, s.Misses = int64(v.perSec), v.hits, v.misses
	if v.waits != nil {
		s.Waits = core.Printable(v.waits.Error(), 1000)
	}
	return s
}

// drained reports whether the remote lacks nothing.
func (v *Volume) drained() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state.Drained()
}

// Describe summarizes a state.
func Describe(state *meta.State) calls.Status {
	queue := state.Queue()
	s := calls.Status{
		Undrained: state.Undrained(), Changes: len(queue), Drained: state.Drained(), Published: state.Published, Files: state.Files,
		Conflicts: state.Conflicts, Local: state.Stay(), Head: state.Head(),
	}
	if len(queue) > 0 {
		oldest := time.Unix(0, queue[0].Time)
		s.Oldest = &oldest
	}
	return s
}

// Inspect reads the journal of a volume that no process has open.
func Inspect(place string) (calls.Status, error) {
	log, state, err := replayed(place, 0)
	if err != nil {
		return calls.Status{}, err
	}
	s := Describe(state)
	s.Buffer, s.Place = log.Size(), place
	return s, log.Close()
}

// replayed opens the journal in a directory, and gives the state that it amounts to.
func replayed(place string, segmentSize int64) (*buffer.Log, *meta.State, error) {
	state := meta.New()
	log, err := buffer.Open(place, buffer.Options{
		SegmentSize: segmentSize,
		Index: func(raw []byte) error {
			s, err := meta.Decode(raw)
			if err == nil {
				state = s
			}
			return err
		},
		Replay: func(r buffer.Record) error { return state.Apply(r) },
	})
	return log, state, err
}

func now() int64 { return time.Now().UnixNano() }

// errStale is about a node that is gone for good.
var errStale = errors.New("the file is gone")

// journalError is about the journal, and so nothing of the remote's.
type journalError struct{ error }

func (e *journalError) Unwrap() error { return e.error }

// passing reports whether an error of the remote may pass: only the drain and its
// status report it.
func passing(err error) bool {
	if _, ours := errors.AsType[*journalError](err); ours {
		return false
	}
	for _, final := range []error{
		errStale, fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, fs.ErrClosed, fsutil.ErrNotPlain, fsutil.ErrOutside, context.Canceled,
		syscall.EXDEV, syscall.ELOOP, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.EILSEQ, syscall.EROFS, syscall.EINVAL,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return err != nil
}

// retried calls try until it succeeds, or fails with what does not pass.
func retried(ctx context.Context, try func() error) error {
	pause := fsutil.Backoff{First: 20 * time.Millisecond, Longest: 5 * time.Second}
	for {
		err := try()
		if !passing(err) {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}
