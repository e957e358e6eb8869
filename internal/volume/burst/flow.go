package burst

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/digest"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// drainAll carries out on the remote what it lacks, until ctx ends.
func (v *Volume) drainAll(ctx context.Context) {
	pause := fsutil.Backoff{First: 50 * time.Millisecond, Longest: 10 * time.Second}
	for ctx.Err() == nil {
		done, err := v.drainOne(ctx)
		v.mu.Lock()
		if err == nil || v.waits == nil || err.Error() != v.waits.Error() {
			if err != nil && ctx.Err() == nil {
				v.o.Log.Warn("drain waits", "err", err)
			}
			v.waits = err
		}
		v.mu.Unlock()
		switch {
		case err != nil:
			pause.Wait(ctx) //nolint:errcheck // the loop looks at ctx
		case done:
			pause.Reset()
		default:
			select {
			case <-v.wake:
			case <-ctx.Done():
			}
		}
	}
}

// drainOne carries out the first operation of the queue; false: there is none.
func (v *Volume) drainOne(ctx context.Context) (bool, error) {
	v.mu.Lock()
	j := drain.First(v.state, v.o.ID)
	if j == nil {
		v.mu.Unlock()
		return false, nil
	}
	v.working = j.Op.Seq
	v.mu.Unlock()
	if err := v.claimed(); err != nil {
		return false, err
	}
	begun := time.Now()
	if j.Writes() {
		if err := v.prepare(ctx, j); err != nil {
			return false, err
		}
	}
	err := v.commit(j)
	if errors.Is(err, fs.ErrNotExist) && j.Op.Kind == meta.Put { // another program has removed what was written beside the name
		if err := v.prepare(ctx, j); err != nil {
			return false, err
		}
		err = v.commit(j)
	}
	if err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.working = 0
	if took := time.Since(begun).Seconds(); j.Op.Kind == meta.Put && took > 0 {
		now := float64(j.Op.Size) / took
		if v.perSec == 0 {
			v.perSec = now
		}
		v.perSec += (now - v.perSec) / 4
	}
	for _, ino := range []uint64{j.Op.Ino, j.Op.Replaced} {
		if n := v.state.Node(ino); n != nil {
			v.forget(n)
		}
	}
	v.report()
	return true, nil
}

// claimed has the remote's record name this volume, where that could not be seen at the start.
func (v *Volume) claimed() error {
	if v.claim == nil {
		return nil
	}
	err := v.claim()
	if err == nil {
		v.claim = nil
	}
	return err
}

func (v *Volume) prepare(ctx context.Context, j *drain.Job) error {
	read := func(e meta.Extent, p []byte) error { return v.readRecord(e.Rec, e.Skip, p) }
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
	c, err := j.Prepare(ctx, v.sink, remote.Content{
		Data: func(put func(off int64, data []byte) error) error {
			for _, e := range j.Op.Extents {
				p := make([]byte, e.Len)
				if err := read(e, p); err != nil {
					return err
				}
				if err := put(e.Off, p); err != nil {
					return err
				}
			}
			return nil
		},
		At: func(p []byte, off int64) error { return meta.ReadAt(j.Op.Extents, p, off, read) },
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
	v.mu.Lock()
	seq, err := v.change(c)
	v.mu.Unlock()
	if err != nil {
		return err
	}
	// After a crash this record shows that what is at the name is ours.
	return v.log.Sync(seq)
}

func (v *Volume) commit(j *drain.Job) error {
	// After a host's death the journal has every change that the remote has.
	if err := v.Sync(); err != nil {
		return err
	}
	v.names.Lock()
	defer v.names.Unlock()
	c, err := j.Commit(v.sink)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		switch {
		case !j.Moved:
		case passing(err): // it may have been carried out, and the answer was lost
			v.inherited = j.Op.Seq
		case v.tree.Traits().Moves: // it was refused
			v.inherited = 0
		}
		return err
	}
	c.Time = now()
	if c.Conflict {
		v.o.Log.Warn("another program has changed the remote", "change", j.Op.Kind, "name", j.Op.Name, "stored as", c.Name)
	}
	delete(v.checked, j.Op.Ino)
	_, err = v.change(c)
	if n := v.state.Node(j.Op.Ino); err == nil && c.Lost && n != nil {
		err = v.put(n) // nobody else queues it
	}
	return err
}

// tick syncs the journal each second, and publishes files that stay open.
func (v *Volume) tick(ctx context.Context) {
	every := time.NewTicker(min(syncInterval, v.o.publishEvery))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		v.mu.Lock()
		var errs []error
		for ino, f := range v.files {
			if n := v.state.Node(ino); n != nil && !f.dirty.IsZero() && time.Since(f.dirty) >= v.o.publishEvery {
				errs = append(errs, v.put(n))
			}
		}
		v.forgetAll(keptFor)
		v.mu.Unlock()
		if err := errors.Join(append(errs, v.Sync(), v.tidy())...); err != nil {
			v.o.Log.Error("sync journal", "err", err)
		}
	}
}
