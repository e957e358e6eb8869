// Package burst is the I/O process of a burst buffer: it keeps what clients write in a
// journal on this host's disk, answers their reads, and drains everything to the remote,
// in order. Its parts have rooms of their own: buffer is the journal, meta what it amounts
// to, cache what was read of the remote, remote the directory that is drained to, drain a
// change there, digest what a check compares, calls what clients send, and mount the client.
package burst

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/cache"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/generation"
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
	// Keys are credentials for a bucket; nil: they are found.
	Keys *core.BucketKeys
	// Relay connects with a relay to the bucket; nil: there is none.
	Relay remote.Dial
	// Room bounds the bytes of the journal.
	Room int64
	// Rate bounds the bytes per second to and from the remote; 0: no bound.
	Rate int64
	// Protect is whether what was found on the remote is neither changed nor removed.
	Protect bool
	// Local are directories, from the top directory on, that the remote never gets.
	Local []string
	// Run is set for the volume of a run with checkpoints, to which the names belong that Globs match; none:
	// all names.
	Run   string
	Globs []string
	// Shared is whether clients of several hosts use it.
	Shared bool
	// Copy is the name of this host's copy of a volume that has several; "": there is one.
	Copy string
	Log  *slog.Logger

	segmentSize  int64         // 0: the usual one
	publishEvery time.Duration // 0: publishInterval
	timeout      time.Duration // 0: fullTimeout
	faults       func(drain.Remote) drain.Remote
	flush        func(*os.File) error // nil: fdatasync
	seenFor      time.Duration        // 0: seenFor
	keep         bool                 // what is read of a directory, too
}

const (
	// publishInterval is after what time a file that stays open is published.
	publishInterval = 30 * time.Second
	// fullTimeout is how long a remote may be full before programs get an error.
	fullTimeout = time.Minute
	// syncInterval bounds what a host that dies loses of data that nobody has synced.
	syncInterval = time.Second
)

// Volume is a burst buffer that is open.
type Volume struct {
	o       Options
	tree    remote.Remote
	journal *journal
	rules   *rules
	names   *names
	room    *room
	drainer *drainer
	locks   *locking
	access  access
	cache   *cache.Cache // nil: what is read is not kept
	begun   time.Time

	// The journal's lock guards what was read and written, and which directories are read file by file.
	traffic traffic
	follows map[uint64]*following

	cancel context.CancelFunc
	all    sync.WaitGroup
}

// load opens a volume with what its journal has of an earlier process. Nothing is drained
// until begin.
func load(o Options) (*Volume, error) {
	if o.publishEvery == 0 {
		o.publishEvery = publishInterval
	}
	if o.timeout == 0 {
		o.timeout = fullTimeout
	}
	if o.seenFor == 0 {
		o.seenFor = seenFor
	}
	if o.segmentSize == 0 {
		o.segmentSize = max(min(buffer.SegmentSize, o.Room/16), 1<<20)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	j, err := openJournal(o.Place, buffer.Options{SegmentSize: o.segmentSize, Flush: o.flush}, o.Log)
	if err != nil {
		return nil, err
	}
	tree, err := opened(o.At, o.Remote, o.Far, remote.Options{Volume: cmp.Or(o.Copy, o.ID), Rate: o.Rate, Notes: o.Notes, Keys: o.Keys, Dial: o.Relay, Fence: o.Run != "" || o.Copy != ""})
	if err != nil {
		return nil, errors.Join(err, j.log.Close())
	}
	v := &Volume{o: o, tree: tree, journal: j, rules: &rules{protect: o.Protect, local: o.Local, state: j.state}, cancel: func() {}}
	v.begun, v.locks, v.follows = time.Now(), newLocking(0), map[uint64]*following{}
	v.access.relayed, v.access.sent = o.Relay != nil, o.Keys != nil
	v.names = &names{journal: j, tree: tree, rules: v.rules, listings: map[uint64]*listing{}, changed: map[uint64]uint64{}, far: !tree.Traits().Keeps || o.keep, glanced: mostGlanced}
	v.room = &room{journal: j, size: o.Room, turn: make(chan struct{}, 1)}
	v.drainer = &drainer{volume: o.ID, logger: o.Log, journal: j, names: v.names, room: v.room, sink: tree, timeout: o.timeout, hurry: make(chan struct{}, 1)}
	v.room.refused = v.drainer.refused
	if err := readsOf(v).openCache(); err != nil {
		return nil, errors.Join(err, j.log.Close(), tree.Close())
	}
	if first := j.state.First(); first != nil {
		v.names.inherited = first.Seq
	}
	if o.faults != nil {
		v.drainer.sink = o.faults(tree)
	}
	if o.Run != "" {
		v.drainer.generations = generation.New(generationRemote{v.drainer.sink, tree}, o.Run, o.Globs)
		v.drainer.generations.At(j.state.Generation())
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
	v.all.Go(func() { v.drainer.run(ctx) })
	v.all.Go(func() { v.tick(ctx) })
	if v.journal.copies != nil {
		v.all.Go(func() { v.journal.copies.Run(ctx) })
	}
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
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	for _, f := range v.journal.files {
		if f.source != nil {
			f.source.Close()
		}
	}
	return errors.Join(v.journal.log.Sync(v.journal.log.Last()), v.journal.log.Close(), v.tree.Close(), readsOf(v).closeCache())
}

// PublishAll queues what was written to files, open ones included. It returns the number of the newest
// change. A drain that waits tries again at once.
func (v *Volume) PublishAll() (uint64, error) {
	v.drainer.again()
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	err := v.journal.putAll(func(*meta.Node) bool { return true })
	return v.journal.log.Last(), err
}

// superseded reports whether another volume of the run has taken the remote over.
func (v *Volume) superseded() bool {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	return v.drainer.superseded
}

// Status describes the volume.
func (v *Volume) Status() calls.Status {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	s := Describe(v.journal.state)
	s.Superseded = v.drainer.superseded
	s.ID, s.Remote, s.Place, s.Room, s.Buffer = v.o.ID, v.o.Remote, v.o.Place, v.o.Room, v.journal.log.Size()
	s.Cached = v.room.cached()
	s.BytesPerSecond = int64(v.room.perSec)
	v.traffic.describe(&s)
	if v.drainer.waits != nil {
		s.Waits = core.Printable(v.drainer.waits.Error(), 1000)
	} else if s.Drained || v.room.perSec > 0 {
		left := float64(s.Undrained) / max(v.room.perSec, 1)
		s.Seconds = &left
	}
	s.Refused = v.drainer.refusal.describe(v.o.timeout)
	return s
}

// Describe summarizes a state.
func Describe(state *meta.State) calls.Status {
	queue := state.Queue()
	s := calls.Status{
		Undrained: state.Undrained(), Changes: len(queue), Drained: state.Drained(), Published: state.Published, Files: state.Files,
		Conflicts: state.Conflicts, Local: state.Stay(), Head: state.Head(), Generation: state.Generation(),
	}
	if len(queue) > 0 {
		oldest := time.Unix(0, queue[0].Time)
		s.Oldest = &oldest
	}
	return s
}

// Inspect reads the journal of a volume that no process has open.
func Inspect(place string) (calls.Status, error) {
	log, state, err := replayed(place, buffer.Options{})
	if err != nil {
		return calls.Status{}, err
	}
	s := Describe(state)
	s.Buffer, s.Place = log.Size(), place
	return s, log.Close()
}

func now() int64 { return time.Now().UnixNano() }

// passing reports whether an error of the remote may pass: only the drain and its
// status report it.
func passing(err error) bool {
	if _, ours := errors.AsType[*journalError](err); ours || remote.ReasonOf(err) != "" {
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

// tick syncs the journal each second, and publishes files that stay open.
func (v *Volume) tick(ctx context.Context) {
	every := time.NewTicker(min(syncInterval, v.o.publishEvery))
	defer every.Stop()
	var idle rest
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		v.journal.mu.Lock()
		var errs []error
		for ino, f := range v.journal.files {
			if n := v.journal.state.Node(ino); n != nil && !f.dirty.IsZero() && time.Since(f.dirty) >= v.o.publishEvery {
				errs = append(errs, v.journal.put(n))
			}
		}
		v.journal.forgetAll(keptFor)
		work := v.traffic.hits + v.traffic.misses + int64(v.journal.log.Last()) // far from the bounds
		v.journal.mu.Unlock()
		idle.second(work)
		if err := errors.Join(append(errs, v.journal.sync(ctx), v.room.tidy(), v.room.balance())...); err != nil {
			v.o.Log.Error("sync journal", "err", err)
		}
	}
}

// Adopt makes the files open that a client reports as open. What nobody has open any
// more is published, or forgotten.
func (v *Volume) Adopt(client uint64, open []calls.OpenFile) error {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	for _, f := range v.journal.files {
		f.opened(client, -f.opens[client])
	}
	for _, o := range open {
		if n := v.journal.state.Node(o.Ino); n != nil && o.Count > 0 {
			f := v.journal.file(o.Ino)
			f.opened(client, o.Count)
			if n.Dirty && f.dirty.IsZero() {
				f.dirty = time.Now()
			}
			f.seq = v.journal.log.Last()
		}
	}
	for ino, f := range v.journal.files {
		if f.count > 0 || f.writers > 0 {
			continue
		}
		if f.source != nil {
			f.source.Close()
		}
		delete(v.journal.files, ino)
	}
	err := v.journal.putAll(func(n *meta.Node) bool { return v.journal.files[n.Ino] == nil })
	v.journal.state.Nodes(func(n *meta.Node) {
		if !n.Linked() && v.journal.removed[n.Ino].IsZero() { // by an earlier process
			v.journal.removed[n.Ino] = time.Now()
			if v.o.Shared { // another client may have it open, and come back
				v.journal.removed[n.Ino] = v.begun.Add(knownFor - keptFor)
			}
		}
	})
	if open == nil && !v.o.Shared {
		v.journal.forgetAll(0)
	}
	return err
}
