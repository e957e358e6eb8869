package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state/event"
)

// keep brings what an attempt has left, its volume or its machines, to the run's
// store as a checkpoint. It waits for a store that cannot be reached now: until it has the volume, the
// site holds the only copy.
func (a *attempt) keep(ctx context.Context, r *protocol.Result) error {
	remote := protocol.VolumeDir(a.lease.Hosts()[0].Dir)
	if r.Snapshot > 0 {
		remote = protocol.SnapshotDir(a.lease.Hosts()[0].Dir, r.Snapshot)
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
			a.event(ctx, event.CheckpointStuck{Site: a.site.Name, Cause: event.CauseOf(err)})
			return err
		}
		a.event(ctx, event.CheckpointDeferred{Site: a.site.Name, Cause: event.CauseOf(err), Until: time.Now().Add(pause)})
		begun := time.Now()
		if core.Sleep(work, pause) != nil {
			return err
		}
		a.waited += time.Since(begun)
	}
}

// storeAway tells whether it is the store that cannot be reached now.
func (a *attempt) storeAway(ctx context.Context) bool {
	_, err := a.checkpoints().Whole(ctx)
	return core.IsKind(err, core.Transient)
}

// bring does so, and notes how long it took: the next attempt leaves as much of
// its slot for it. A site that took its hosts back meanwhile wants more.
func (a *attempt) bring(ctx context.Context, r *protocol.Result) error {
	begun := time.Now()
	err := a.keep(ctx, r)
	took := time.Since(begun) - a.waited
	switch {
	case err == nil:
		a.on(machinery.Kept)
		a.rec.Bringing = max(a.rec.Bringing, took)
	case core.IsKind(err, core.Lost) || core.IsKind(err, core.NotFound):
		a.rec.Bringing = max(a.rec.Bringing, 2*took)
	}
	return errors.Join(err, a.put(context.WithoutCancel(ctx)))
}

// keepSnapshot does the same with what the head has kept meanwhile, as it has told.
func (a *attempt) keepSnapshot(ctx context.Context, kept protocol.Event) error {
	return a.keepAs(ctx, kept.Snapshot, protocol.SnapshotDir(a.lease.Hosts()[0].Dir, kept.Snapshot), kept.Bytes)
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

// keepAs keeps the tree of so many bytes, 0 where that is not known, as one of the
// attempt's checkpoints.
func (a *attempt) keepAs(ctx context.Context, snapshot int, remote string, bytes int64) error {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	a.newest = nil
	if _, err := a.checkpoints().Known(ctx); err != nil {
		return a.checkpoints().Failed("keep a checkpoint of run", err)
	}
	store, err := a.storeFrom(ctx)
	if err != nil {
		return err
	}
	var m driver.Manifest
	made, g := false, driver.Generation{Attempt: a.rec.N, Snapshot: snapshot}
	if err := a.checkpoints().ExpectKeep(g); err != nil {
		return err
	}
	err = a.transfers().Retry(ctx, func() (err error) {
		m, made, err = store.Keep(ctx, g, a.site.Name, a.treeOf(remote, bytes))
		return err
	})
	if err == nil {
		err = a.sameKept(ctx, g, m, remote)
	}
	if err == nil {
		err = a.checkpoints().NoteDigest(g, m)
	}
	if err != nil {
		return a.checkpoints().Failed("keep a checkpoint of run", err)
	}
	if made {
		text := a.checkpoints().KeptText(m)
		if transfer.BySite(store) {
			text += ", written there by the site itself"
		}
		a.c.say(core.PhaseCollect, text)
	}
	if a.sub.Job.Store == "" {
		return nil
	}
	list, err := a.checkpoints().Whole(ctx)
	if err == nil {
		err = errors.Join(a.checkpoints().Remember(list), a.checkpoints().Note(ctx, store))
	}
	return err
}

// restore brings the newest checkpoint that is undamaged to the head, as its
// volume or for its machines, and tells whether there was one.
func (a *attempt) restore(ctx context.Context, head core.Host) (bool, error) {
	list, err := a.checkpoints().All(ctx)
	if err != nil {
		return false, err
	}
	remote := protocol.VolumeDir(head.Dir)
	if a.sub.Job.SavesVM() {
		remote = protocol.RestoreDir(head.Dir)
	}
	for i, k := range slices.Backward(list) {
		store, err := a.storeFrom(ctx)
		if err != nil {
			return false, err
		}
		if err = driver.ErrDamaged; !k.Broken {
			err = a.transfers().Retry(ctx, func() error {
				return a.fromBefore(store).Restore(ctx, k, a.treeOf(remote, k.Manifest.Bytes))
			})
			if err == nil {
				err = a.sameRestored(ctx, k, remote)
			}
		}
		if errors.Is(err, driver.ErrDamaged) {
			damaged := event.CheckpointDamaged{Of: k.Attempt}
			if i > 0 {
				damaged.Next = list[i-1].Attempt
			}
			a.event(ctx, damaged)
			continue
		}
		if err == nil {
			a.rec.From = placement.Fingerprint(placement.CheckpointFiles(k.Manifest.Files, &a.sub.Job))
		}
		if err == nil && a.sub.Job.SavesVM() {
			a.saved, err = a.readSaved(ctx, k, remote)
		}
		return err == nil, err
	}
	if len(list) == 0 {
		return false, nil
	}
	a.event(ctx, event.CheckpointsDamaged{})
	// An earlier controller may have brought a part of one there.
	empty, err := os.MkdirTemp(a.c.Store.RunDir(a.run.ID), "empty-")
	if err != nil {
		return false, err
	}
	defer os.Remove(empty)
	return false, a.lease.Stage(ctx, driver.Transfer{Local: empty, Remote: protocol.VolumeDir(head.Dir)})
}

// lastSnapshot brings home what the head of a lost attempt has kept last or, where the
// run has nothing to go on from, what the job has left. The error tells that the head, or
// the store, cannot be reached now; what cannot be had for another reason is not waited
// for, and nothing is once the run shall end.
func (a *attempt) lastSnapshot(ctx context.Context) error {
	c := a.sub.Job.Checkpoint
	if c == nil || len(a.lease.Hosts()) == 0 {
		return nil
	}
	var err error
	var newest protocol.Event
	if c.Every > 0 || c.Command != nil || a.sub.Job.SavesVM() {
		err = a.headFiles().Journal(ctx, func(e protocol.Event) bool {
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
	a.c.say(core.PhaseCollect, fmt.Sprintf("the last checkpoint that site %s has kept cannot be had: %v", a.site.Name, err))
	if unreached(err) && !a.stopAsked() {
		return err
	}
	return nil
}

// keepUnsaved brings the volume of a job home that was asked to save itself and killed as
// it took too long, where no checkpoint is there: whether what it has written is whole,
// only its user can tell.
func (a *attempt) keepUnsaved(ctx context.Context) error {
	if a.rec.CheckpointAsked.IsZero() || !a.rec.Result.Reported() || a.sub.Job.SavesVM() {
		return nil
	}
	if list, err := a.checkpoints().Whole(ctx); err != nil || len(list) > 0 {
		return err
	}
	volume := retention.UnsavedVolume(a.c.Store.RunDir(a.run.ID))
	if err := a.collector().KeepVolume(ctx, a.lease.Hosts()[0].Dir, volume); err != nil {
		return err
	}
	a.event(ctx, event.VolumeKept{Path: volume})
	return nil
}
