package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/checkpoint"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state/event"
)

// keeping copies the checkpoints of an attempt from its site to the run's store, and may
// leave the last one on the site as well.
type keeping struct {
	rec      *record
	at       *siteLease
	reach    *reachability
	maker    maker
	compared checkpoint.Compared
	// waited is how long the last checkpoint had to wait for the store.
	waited time.Duration
	// leftIn is the directory of that checkpoint on the head's host, once the run's store
	// has it too; "": it has not.
	leftIn string
}

// keep brings what an attempt has left, its volume or its machines, to the run's
// store as a checkpoint. It waits for a store that cannot be reached now: until it has the volume, the
// site holds the only copy.
func (k *keeping) keep(ctx context.Context, r *protocol.Result) error {
	remote := protocol.VolumeDir(k.at.lease.Hosts()[0].Dir)
	if r.Snapshot > 0 {
		remote = protocol.SnapshotDir(k.at.lease.Hosts()[0].Dir, r.Snapshot)
	}
	work, cancel := k.rec.of.untilStop(ctx)
	defer cancel()
	pause := fsutil.Backoff{First: firstRest, Longest: longestRest, Exact: true}
	for {
		err := k.keepAs(ctx, 0, remote, r.Bytes)
		if err == nil {
			k.leftIn = remote
		}
		if err == nil || k.rec.of.sub.Job.Store == "" || ctx.Err() != nil {
			return err
		}
		if !k.storeAway(ctx) {
			k.rec.event(ctx, event.CheckpointStuck{Site: k.at.site.Name, Cause: event.CauseOf(err)})
			return err
		}
		begun, rest := time.Now(), pause.Next()
		k.rec.event(ctx, event.CheckpointDeferred{Site: k.at.site.Name, Cause: event.CauseOf(err), Until: begun.Add(rest)})
		if core.Sleep(work, rest) != nil {
			return err
		}
		k.waited += time.Since(begun)
	}
}

// storeAway reports whether it is the store that cannot be reached now.
func (k *keeping) storeAway(ctx context.Context) bool {
	_, err := k.rec.of.checkpoints().Whole(ctx)
	return core.IsKind(err, core.Transient)
}

// bring keeps that, and notes how long it took: the next attempt leaves as much of
// its slot for it. A site that took its hosts back meanwhile wants more.
func (k *keeping) bring(ctx context.Context, r *protocol.Result) error {
	begun := time.Now()
	err := k.keep(ctx, r)
	took := time.Since(begun) - k.waited
	switch {
	case err == nil:
		k.rec.on(machinery.Kept)
		k.rec.Bringing = max(k.rec.Bringing, took)
	case core.IsKind(err, core.Lost) || core.IsKind(err, core.NotFound):
		k.rec.Bringing = max(k.rec.Bringing, 2*took)
	}
	return errors.Join(err, k.rec.put(context.WithoutCancel(ctx)))
}

// keepSnapshot does the same with a snapshot that the head has taken meanwhile, and reported.
func (k *keeping) keepSnapshot(ctx context.Context, kept protocol.Event) error {
	return k.keepAs(ctx, kept.Snapshot, protocol.SnapshotDir(k.at.lease.Hosts()[0].Dir, kept.Snapshot), kept.Bytes)
}

// bringSnapshot is keepSnapshot while the head takes further snapshots. It is no error where
// the head has replaced this one by them.
func (k *keeping) bringSnapshot(ctx context.Context, head headlink.Head, kept protocol.Event) error {
	done, err := head.Hold(ctx, kept.Snapshot)
	switch {
	case core.IsKind(err, core.NotFound):
		return nil
	case core.IsKind(err, core.Unsupported): // one of an earlier bee, which keeps two
		return k.keepSnapshot(ctx, kept)
	case err != nil:
		return err
	}
	defer done()
	return k.keepSnapshot(ctx, kept)
}

// lastSnapshot copies the last snapshot of a lost attempt's head to the run's store. Where
// the run has nothing to continue from, lastSnapshot collects what the job has left. An
// error means that the head, or the store, cannot be reached now, or that the disk here is
// full. Files that cannot be had for another reason are no error, and nothing is once the
// run shall end.
func (k *keeping) lastSnapshot(ctx context.Context) error {
	c := k.rec.of.sub.Job.Checkpoint
	if c == nil || len(k.at.lease.Hosts()) == 0 {
		return nil
	}
	var err error
	var newest protocol.Event
	pack := len(k.rec.of.sub.Job.Pack) > 0
	if k.rec.of.sub.Job.ContinuesAfterCheckpoint() && !pack {
		err = k.at.headFiles().Journal(ctx, func(e protocol.Event) bool {
			if e.Snapshot > newest.Snapshot {
				newest = e
			}
			return false
		})
	}
	switch {
	case pack:
		err = k.keepCases(ctx)
	case err == nil && newest.Snapshot > 0:
		err = k.keepSnapshot(ctx, newest)
	case err == nil:
		err = k.keepUnsaved(ctx)
	}
	if err == nil || core.IsKind(err, core.NotFound) {
		return nil
	}
	k.rec.of.c.ReportText(core.PhaseCollect, fmt.Sprintf("the last checkpoint that site %s has kept cannot be had: %v", k.at.site.Name, err))
	if (unreached(err) || fsutil.IsFull(err)) && !k.rec.of.stopAsked() {
		return err
	}
	return nil
}

// keepCases copies the volume of a pack whose head is lost to the run's store, where cases have
// ended in the attempt: their record in the volume, and their directories, are whole at any time,
// also after a power failure. The journal, which may then lack its end, has those that had ended
// before.
func (k *keeping) keepCases(ctx context.Context) error {
	files := k.at.headFiles()
	known, err := files.Cases(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(known, func(_ int, c protocol.CaseEnd) bool { return !c.Ended() })
	err = files.Journal(ctx, func(e protocol.Event) bool {
		if e.Case != nil && e.Rank < 0 {
			delete(known, e.Case.Number)
		}
		return len(known) == 0
	})
	if err != nil && !core.IsKind(err, core.NotFound) || len(known) == 0 {
		return err
	}
	return k.keepAs(ctx, 0, protocol.VolumeDir(k.at.lease.Hosts()[0].Dir), 0)
}

// keepUnsaved collects the volume of a job that was asked for a checkpoint and killed as it
// took too long, where the run has no checkpoint. Only its user can judge whether the files
// that it has written are whole.
func (k *keeping) keepUnsaved(ctx context.Context) error {
	if k.rec.CheckpointAsked.IsZero() || !k.rec.Result.Reported() || k.rec.of.sub.Job.SavesVM() {
		return nil
	}
	if list, err := k.rec.of.checkpoints().Whole(ctx); err != nil || len(list) > 0 {
		return err
	}
	volume := retention.UnsavedVolume(k.rec.of.c.Store.RunDir(k.rec.of.run.ID))
	if err := k.at.collector().KeepVolume(ctx, k.at.lease.Hosts()[0].Dir, volume); err != nil {
		return err
	}
	k.rec.event(ctx, event.VolumeKept{Path: volume})
	return nil
}

// keepAs keeps the tree of so many bytes, 0 where that is not known, as one of the
// attempt's checkpoints.
func (k *keeping) keepAs(ctx context.Context, snapshot int, remote string, bytes int64) error {
	k.reach.newest = nil
	return k.copier().Keep(ctx, snapshot, remote, bytes)
}

// restore brings the newest checkpoint that is undamaged to the head, as its
// volume or for its machines, and reports whether there was one.
func (st *staging) restore(ctx context.Context, head core.Host) (bool, error) {
	k, is, err := st.keeping.copier().Restore(ctx, head)
	if err == nil {
		err = withdrawBeyond(ctx, st.rec, k.Attempt)
	}
	st.rec.Restored = k.Attempt
	if err != nil || !is {
		return false, err
	}
	st.rec.From = placement.Fingerprint(placement.CheckpointFiles(k.Manifest.Files, &st.rec.of.sub.Job))
	if st.rec.of.sub.Job.SavesVM() {
		st.saved, err = st.readSaved(ctx, k, checkpoint.Place(&st.rec.of.sub.Job, head))
	}
	return err == nil, err
}

// copier returns what copies the attempt's checkpoints.
func (k *keeping) copier() *checkpoint.Copier {
	return &checkpoint.Copier{
		Site: k.at.transfers(), Kept: k.rec.of.checkpoints(), Job: &k.rec.of.sub.Job, Attempt: k.rec.N, Dir: k.rec.of.c.Store.RunDir(k.rec.of.run.ID),
		Compared: &k.compared, Before: k.before, ReuseFrom: k.rec.of.c.reuseFrom, Say: k.rec.of.c.ReportText,
	}
}

// before returns the attempt before, as long as its files are there.
func (k *keeping) before() *checkpoint.Before {
	b := k.maker.lent()
	if b == nil {
		return nil
	}
	return &checkpoint.Before{Attempt: b.rec.N, Site: b.at.site.Name, Lease: b.at.lease, Left: &b.keeping.leftIn, Release: k.maker.releaseBefore}
}
