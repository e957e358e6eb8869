package burst

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/digest"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/generation"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// drainer carries out on the remote what it lacks, one operation after the other.
type drainer struct {
	volume  string // its id
	logger  *slog.Logger
	journal *journal
	names   *names
	room    *room
	sink    drain.Remote // the remote, as the drain uses it

	waits error // what the drain waits for, guarded by the journal's lock
	// refusal is why the remote refuses the next change; nil: it does not. The journal's lock guards it.
	refusal *refusal
	timeout time.Duration // after which a full remote is an error
	hurry   chan struct{} // has the next try be at once
	// generations are the checkpoints of the run whose volume it is; nil: there are none.
	generations *generation.Generations
	// taken reports whether another volume of the run has taken the remote over. Then superseded is set,
	// guarded by the journal's lock, and nothing is drained any more.
	taken      func() bool
	superseded bool

	claim func() error // what has to succeed before anything is drained; nil: it has

	progress progress
}

// waitsFor is what the drain waits for, or what has kept the volume from leaving its remote.
func (d *drainer) waitsFor(leaving error) error {
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	if d.waits != nil {
		return d.waits
	}
	return leaving
}

// run carries out on the remote what it lacks, until ctx ends.
func (d *drainer) run(ctx context.Context) {
	pause := fsutil.Backoff{First: 50 * time.Millisecond, Longest: 10 * time.Second}
	for ctx.Err() == nil {
		done, err := d.next(ctx)
		over := err != nil && d.taken != nil && d.taken()
		d.journal.mu.Lock()
		d.superseded = over
		if err == nil || d.waits == nil || err.Error() != d.waits.Error() {
			if err != nil && ctx.Err() == nil {
				d.logger.Warn("drain waits", "err", err)
			}
			d.waits = err
		}
		d.refusal = d.refusal.next(err)
		d.journal.mu.Unlock()
		switch {
		case over:
			d.logger.Warn("another attempt of the run has taken the remote over")
			return
		case err != nil:
			select {
			case <-time.After(pause.Next()):
			case <-d.hurry:
			case <-ctx.Done():
			}
		case done:
			pause.Reset()
		default:
			select {
			case <-d.journal.wake:
			case <-ctx.Done():
			}
		}
	}
}

// next carries out the first operation of the queue; false: there is none.
func (d *drainer) next(ctx context.Context) (bool, error) {
	d.journal.mu.Lock()
	j := drain.First(d.journal.state, d.volume)
	if j == nil {
		d.journal.mu.Unlock()
		return false, nil
	}
	d.journal.working = j.Op.Seq
	d.journal.mu.Unlock()
	if err := d.claimed(); err != nil {
		return false, err
	}
	begun := time.Now()
	if j.Op.Kind == meta.Barrier {
		return true, d.record(ctx, j)
	}
	if j.Writes() {
		if err := d.prepare(ctx, j); err != nil {
			return false, err
		}
	}
	if err := d.touch(ctx, j); err != nil {
		return false, err
	}
	err := d.commit(ctx, j)
	if errors.Is(err, fs.ErrNotExist) && j.Op.Kind == meta.Put { // another program has removed what was written beside the name
		if err := d.prepare(ctx, j); err != nil {
			return false, err
		}
		if err := d.touch(ctx, j); err != nil {
			return false, err
		}
		err = d.commit(ctx, j)
	}
	if err != nil {
		return false, err
	}
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	d.progress.done()
	d.waits, d.refusal = nil, nil // before anyone sees that the operation is done
	d.journal.working = 0
	if took := time.Since(begun).Seconds(); j.Op.Kind == meta.Put && took > 0 {
		now := float64(j.Op.Size) / took
		if d.room.perSec == 0 {
			d.room.perSec = now
		}
		d.room.perSec += (now - d.room.perSec) / 4
	}
	for _, ino := range []uint64{j.Op.Ino, j.Op.Replaced} {
		if n := d.journal.state.Node(ino); n != nil {
			d.journal.forget(n)
		}
	}
	d.journal.report()
	return true, nil
}

// claimed has the remote's record name this volume, where that could not be seen at the start.
func (d *drainer) claimed() error {
	if d.claim == nil {
		return nil
	}
	err := d.claim()
	if err == nil {
		d.claim = nil
	}
	return err
}

// prepare sends the version of a Put beside its name, and records that.
func (d *drainer) prepare(ctx context.Context, j *drain.Job) error {
	read := func(e meta.Extent, p []byte) error { return d.journal.read(e.Rec, e.Skip, p) }
	// The digest is computed beside the transfer, of the same records.
	type sum struct {
		text string
		err  error
	}
	summed, stop := make(chan sum, 1), context.CancelFunc(nil)
	ctx, stop = context.WithCancel(ctx)
	defer stop()
	go func() {
		text, err := digest.Of(ctx, j.Op.Size,
			func(off, end int64) bool { return len(meta.Between(j.Op.Extents, off, end)) > 0 },
			func(p []byte, off int64) error { return meta.ReadAt(j.Op.Extents, p, off, read) })
		summed <- sum{text, err}
	}()
	d.progress.try(j.Op.Seq)
	c, err := j.Prepare(ctx, d.sink, remote.Content{
		Data: func(put func(off int64, data []byte) error) error {
			for _, e := range j.Op.Extents {
				p := make([]byte, e.Len)
				if err := read(e, p); err != nil {
					return err
				}
				if err := put(e.Off, p); err != nil {
					return err
				}
				d.progress.sent(len(p))
			}
			return nil
		},
		At: func(p []byte, off int64) error {
			defer d.progress.sent(len(p))
			return meta.ReadAt(j.Op.Extents, p, off, read)
		},
	})
	if err != nil {
		stop()
		<-summed // it reads the journal, which may be closed next
		return err
	}
	of := <-summed
	if of.err != nil {
		return of.err
	}
	c.Sum = of.text
	d.journal.mu.Lock()
	seq, err := d.journal.change(c)
	d.journal.mu.Unlock()
	if err != nil {
		return err
	}
	// After a crash this record shows that what is at the name is ours.
	return d.journal.safe(ctx, seq)
}

// commit carries an operation out, and records what the remote has then.
func (d *drainer) commit(ctx context.Context, j *drain.Job) error {
	// After a host's death the journal, or its copy, has every change that the remote has.
	if err := d.journal.sync(ctx); err != nil {
		return err
	}
	var c meta.Change
	var err error
	return d.names.change(j.Op.Kind == meta.Rename, func() { c, err = j.Commit(d.sink) }, func() error { return d.committed(j, c, err) })
}

// committed records what came of an operation. Callers hold the lock of the journal.
func (d *drainer) committed(j *drain.Job, c meta.Change, err error) error {
	if err != nil {
		switch {
		case !j.Moved:
		case passing(err): // it may have been carried out, and the answer was lost
			d.names.inherited = j.Op.Seq
		case d.names.tree.Traits().Moves: // it was refused
			d.names.inherited = 0
		}
		return err
	}
	c.Time = now()
	if c.Conflict {
		d.logger.Warn("another program has changed the remote", "change", j.Op.Kind, "name", j.Op.Name, "stored as", c.Name)
	}
	n := d.journal.state.Node(j.Op.Ino)
	if n != nil {
		d.names.changes(n.At)
	}
	d.names.changes(j.Op.Dir)
	delete(d.journal.checked, j.Op.Ino)
	if !c.Conflict && !c.Lost && !c.Skipped { // the remote has just carried it out, on the version that it was meant for
		d.journal.checked[j.Op.Ino] = time.Now()
	}
	_, err = d.journal.change(c)
	if n := d.journal.state.Node(j.Op.Ino); err == nil && c.Lost && n != nil {
		err = d.journal.put(n) // nobody else queues it
	}
	return err
}

// again has a drain that waits try again at once.
func (d *drainer) again() {
	select {
	case d.hurry <- struct{}{}:
	default:
	}
}
