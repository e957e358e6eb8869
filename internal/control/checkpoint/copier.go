// Package checkpoint copies checkpoints between the site of an attempt and the store of its
// run, and compares what has arrived: a run continues from nothing else. It knows leases and
// stores, and nothing of an attempt's states.
package checkpoint

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Copier copies the checkpoints of one attempt.
type Copier struct {
	Site    *transfer.Site
	Kept    *retention.Checkpoints // of the run
	Job     *spec.Job
	Attempt int
	Dir     string // the run's on this machine
	// Compared is shared by all copies of the attempt.
	Compared *Compared
	// Before returns the attempt before, as long as its files are there; nil: there is none.
	Before func() *Before
	// ReuseFrom, if set, is in place of that constant: tests have small volumes.
	ReuseFrom int64
	Say       func(p core.Phase, message string)
}

// Compared notes with what the volume of an attempt was compared. The zero value is ready.
type Compared struct {
	keeping sync.Mutex // guards the checkpoints
	as      string     // the digest of the checkpoint of the last comparison
}

// Place is where a checkpoint of a job is brought to on the head's host.
func Place(job *spec.Job, head core.Host) string {
	if job.SavesVM() {
		return protocol.RestoreDir(head.Dir)
	}
	return protocol.VolumeDir(head.Dir)
}

// Keep keeps the tree of so many bytes, 0 where that is not known, as one of the
// attempt's checkpoints.
func (c *Copier) Keep(ctx context.Context, snapshot int, remote string, bytes int64) error {
	c.Compared.keeping.Lock()
	defer c.Compared.keeping.Unlock()
	known, err := c.Kept.Known(ctx)
	if err != nil {
		return c.Kept.Failed("keep a checkpoint of run", err)
	}
	store, err := c.storeFrom(ctx)
	if err != nil {
		return err
	}
	var m driver.Manifest
	made, g := false, driver.Generation{Attempt: c.Attempt, Snapshot: snapshot}
	if err := c.Kept.ExpectKeep(ctx, known, g); err != nil {
		return err
	}
	err = c.Site.Retry(ctx, func() (err error) {
		m, made, err = store.Keep(ctx, g, c.Site.Name, c.treeOf(remote, bytes))
		return err
	})
	if err == nil {
		err = c.sameKept(ctx, g, m, remote)
	}
	if err == nil {
		err = c.Kept.NoteDigest(g, m)
	}
	if err != nil {
		return c.Kept.Failed("keep a checkpoint of run", err)
	}
	if made {
		text := c.Kept.KeptText(m)
		if transfer.BySite(store) {
			text += ", written there by the site itself"
		}
		c.Say(core.PhaseCollect, text)
	}
	if c.Job.Store == "" {
		return nil
	}
	list, err := c.Kept.Whole(ctx)
	if err == nil {
		err = errors.Join(c.Kept.Remember(list), c.Kept.Note(ctx, store))
	}
	return err
}

// Restore brings the newest checkpoint that is undamaged to the head, as its
// volume or for its machines, and returns that. is: there was one.
func (c *Copier) Restore(ctx context.Context, head core.Host) (restored driver.Checkpoint, is bool, err error) {
	list, err := c.Kept.All(ctx)
	if err != nil {
		return restored, false, err
	}
	remote := Place(c.Job, head)
	for i, k := range slices.Backward(list) {
		store, err := c.storeFrom(ctx)
		if err != nil {
			return restored, false, err
		}
		if err = driver.ErrDamaged; !k.Broken {
			err = c.Site.Retry(ctx, func() error {
				return c.fromBefore(store).Restore(ctx, k, c.treeOf(remote, k.Manifest.Bytes))
			})
			if err == nil {
				err = c.sameRestored(ctx, k, remote)
			}
		}
		if errors.Is(err, driver.ErrDamaged) {
			damaged := event.CheckpointDamaged{Of: k.Attempt}
			if i > 0 {
				damaged.Next = list[i-1].Attempt
			}
			c.Site.Record(ctx, damaged)
			continue
		}
		return k, err == nil, err
	}
	if len(list) == 0 {
		return restored, false, nil
	}
	c.Site.Record(ctx, event.CheckpointsDamaged{})
	// An earlier controller may have brought a part of one there.
	empty, err := os.MkdirTemp(c.Dir, "empty-")
	if err != nil {
		return restored, false, err
	}
	defer os.Remove(empty)
	return restored, false, c.Site.Lease.Stage(ctx, driver.Transfer{Local: empty, Remote: protocol.VolumeDir(head.Dir)})
}

// treeOf returns a directory of so many bytes on the head's host, 0 where that is not known.
func (c *Copier) treeOf(remote string, bytes int64) transfer.Tree {
	return transfer.Tree{Site: c.Site, Remote: remote, Size: bytes}
}

// storeFrom returns the run's store as the attempt's site uses it best.
func (c *Copier) storeFrom(ctx context.Context) (driver.Checkpoints, error) {
	store, err := c.Kept.Store()
	if err != nil || c.Job.Store == "" {
		return store, err
	}
	best, err := c.Site.StoreOf(ctx, store, c.Kept.Opened(), c.Kept.Name)
	if err != nil {
		return nil, c.Kept.Failed("use the store of run", err)
	}
	return best, nil
}
