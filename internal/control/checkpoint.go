package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/checkpoint"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state/event"
)

// keep brings what an attempt has left, its volume or its machines, to the run's
// store as a checkpoint. It waits for a store that cannot be reached now: until it has the volume, the
// site holds the only copy.
func (a *attempt) keep(ctx context.Context, r *protocol.Result) error {
	remote := protocol.VolumeDir(a.at.lease.Hosts()[0].Dir)
	if r.Snapshot > 0 {
		remote = protocol.SnapshotDir(a.at.lease.Hosts()[0].Dir, r.Snapshot)
	}
	work, cancel := a.untilStop(ctx)
	defer cancel()
	for pause := firstRest; ; pause = min(2*pause, longestRest) {
		err := a.keepAs(ctx, 0, remote, r.Bytes)
		if err == nil {
			a.lies = remote
		}
		if err == nil || a.sub.Job.Store == "" || ctx.Err() != nil {
			return err
		}
		if !a.storeAway(ctx) {
			a.rec.event(ctx, event.CheckpointStuck{Site: a.at.site.Name, Cause: event.CauseOf(err)})
			return err
		}
		a.rec.event(ctx, event.CheckpointDeferred{Site: a.at.site.Name, Cause: event.CauseOf(err), Until: time.Now().Add(pause)})
		begun := time.Now()
		if core.Sleep(work, pause) != nil {
			return err
		}
		a.waited += time.Since(begun)
	}
}

// storeAway reports whether it is the store that cannot be reached now.
func (a *attempt) storeAway(ctx context.Context) bool {
	_, err := a.checkpoints().Whole(ctx)
	return core.IsKind(err, core.Transient)
}

// bring keeps that, and notes how long it took: the next attempt leaves as much of
// its slot for it. A site that took its hosts back meanwhile wants more.
func (a *attempt) bring(ctx context.Context, r *protocol.Result) error {
	begun := time.Now()
	err := a.keep(ctx, r)
	took := time.Since(begun) - a.waited
	switch {
	case err == nil:
		a.rec.on(machinery.Kept)
		a.rec.Bringing = max(a.rec.Bringing, took)
	case core.IsKind(err, core.Lost) || core.IsKind(err, core.NotFound):
		a.rec.Bringing = max(a.rec.Bringing, 2*took)
	}
	return errors.Join(err, a.rec.put(context.WithoutCancel(ctx)))
}

// keepSnapshot does the same with a snapshot that the head has taken meanwhile, and reported.
func (a *attempt) keepSnapshot(ctx context.Context, kept protocol.Event) error {
	return a.keepAs(ctx, kept.Snapshot, protocol.SnapshotDir(a.at.lease.Hosts()[0].Dir, kept.Snapshot), kept.Bytes)
}

// bringSnapshot is keepSnapshot while the head keeps others. One that has made way for
// these is not missed.
func (a *attempt) bringSnapshot(ctx context.Context, head Head, kept protocol.Event) error {
	done, err := head.Hold(ctx, kept.Snapshot)
	switch {
	case core.IsKind(err, core.NotFound):
		return nil
	case core.IsKind(err, core.Unsupported): // one of an earlier bee, which keeps two
		return a.keepSnapshot(ctx, kept)
	case err != nil:
		return err
	}
	defer done()
	return a.keepSnapshot(ctx, kept)
}

// lastSnapshot copies the last snapshot of a lost attempt's head to the run's store. Where
// the run has nothing to continue from, lastSnapshot collects what the job has left. An
// error means that the head, or the store, cannot be reached now. Files that cannot be had
// for another reason are no error, and nothing is once the run shall end.
func (a *attempt) lastSnapshot(ctx context.Context) error {
	c := a.sub.Job.Checkpoint
	if c == nil || len(a.at.lease.Hosts()) == 0 {
		return nil
	}
	var err error
	var newest protocol.Event
	if c.Every > 0 || c.Command != nil || a.sub.Job.SavesVM() {
		err = a.at.headFiles().Journal(ctx, func(e protocol.Event) bool {
			if e.Snapshot > newest.Snapshot {
				newest = e
			}
			return false
		})
	}
	switch {
	case err == nil && newest.Snapshot > 0:
		err = a.keepSnapshot(ctx, newest)
	case err == nil:
		err = a.keepUnsaved(ctx)
	}
	if err == nil || core.IsKind(err, core.NotFound) {
		return nil
	}
	a.c.say(core.PhaseCollect, fmt.Sprintf("the last checkpoint that site %s has kept cannot be had: %v", a.at.site.Name, err))
	if unreached(err) && !a.stopAsked() {
		return err
	}
	return nil
}

// keepUnsaved collects the volume of a job that was asked for a checkpoint and killed as it
// took too long, where the run has no checkpoint. Only its user can judge whether the files
// that it has written are whole.
func (a *attempt) keepUnsaved(ctx context.Context) error {
	if a.rec.CheckpointAsked.IsZero() || !a.rec.Result.Reported() || a.sub.Job.SavesVM() {
		return nil
	}
	if list, err := a.checkpoints().Whole(ctx); err != nil || len(list) > 0 {
		return err
	}
	volume := retention.UnsavedVolume(a.c.Store.RunDir(a.run.ID))
	if err := a.at.collector().KeepVolume(ctx, a.at.lease.Hosts()[0].Dir, volume); err != nil {
		return err
	}
	a.rec.event(ctx, event.VolumeKept{Path: volume})
	return nil
}

// keepAs keeps the tree of so many bytes, 0 where that is not known, as one of the
// attempt's checkpoints.
func (a *attempt) keepAs(ctx context.Context, snapshot int, remote string, bytes int64) error {
	a.reach.newest = nil
	return a.copier().Keep(ctx, snapshot, remote, bytes)
}

// restore brings the newest checkpoint that is undamaged to the head, as its
// volume or for its machines, and reports whether there was one.
func (a *attempt) restore(ctx context.Context, head core.Host) (bool, error) {
	k, is, err := a.copier().Restore(ctx, head)
	if err != nil || !is {
		return false, err
	}
	a.rec.From = placement.Fingerprint(placement.CheckpointFiles(k.Manifest.Files, &a.sub.Job))
	if a.sub.Job.SavesVM() {
		a.saved, err = a.readSaved(ctx, k, checkpoint.Place(&a.sub.Job, head))
	}
	return err == nil, err
}

// copier returns what copies the attempt's checkpoints.
func (a *attempt) copier() *checkpoint.Copier {
	return &checkpoint.Copier{
		Site: a.at.transfers(), Kept: a.checkpoints(), Job: &a.sub.Job, Attempt: a.rec.N, Dir: a.c.Store.RunDir(a.run.ID),
		Compared: &a.compared, Before: a.before, ReuseFrom: a.c.reuseFrom, Say: a.c.say,
	}
}

// before returns the attempt before, as long as its files are there.
func (a *attempt) before() *checkpoint.Before {
	b := a.runner.lent()
	if b == nil {
		return nil
	}
	return &checkpoint.Before{Attempt: b.rec.N, Site: b.at.site.Name, Lease: b.at.lease, Left: &b.lies, Release: a.runner.releaseBefore}
}
