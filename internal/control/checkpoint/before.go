package checkpoint

import (
	"context"
	"os"
	"path"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// reuseFrom is how large a checkpoint has to be for a direct transfer from another site. A
// smaller one arrives from the submitting machine before two hosts have a connection.
const reuseFrom = 16 << 20

// Before is the attempt before, which has left its checkpoint on its site, too.
type Before struct {
	Attempt int
	Site    string
	Lease   driver.Lease
	Left    *string // where the checkpoint is on its head's host; "": it was reused
	// Release releases its hosts. done is closed when that is over.
	Release func(ctx context.Context) (done <-chan struct{})
}

// Last reports whether a checkpoint is the one that an attempt has left at its end.
func Last(k driver.Checkpoint, attempt int) bool {
	return k.Generation == driver.Generation{Attempt: attempt}
}

// fromBefore gives the run's store as one whose newest checkpoint comes from the site of
// the attempt before, as long as it is there.
func (c *Copier) fromBefore(store driver.Checkpoints) driver.Checkpoints {
	before := c.Before()
	if before == nil || *before.Left == "" {
		return store
	}
	lent := lentStore{store, c, before}
	if volumeReuse, is := before.volumeReuse(c.Site.Lease); is {
		return reusedStore{lent, volumeReuse}
	}
	from, to := before.Lease.DirectTransfer(), c.Site.Lease.DirectTransfer()
	if from == nil || to == nil || c.Job.Store != "" { // which has routes of its own
		return store
	}
	return directRestore{lent, transfer.Route{From: from, To: to, FromName: before.Site, ToName: c.Site.Name}}
}

// lentStore is a store whose newest checkpoint the attempt before has still, too.
type lentStore struct {
	driver.Checkpoints
	c      *Copier
	before *Before
}

// fromStore restores the checkpoint from the store alone. The hosts of the attempt before are
// released first: both copies may be on one disk.
func (s lentStore) fromStore(ctx context.Context, k driver.Checkpoint, t transfer.Tree) error {
	<-s.before.Release(ctx)
	return s.Checkpoints.Restore(ctx, k, t)
}

// volumeReuse returns how the volume of the attempt before is reused by a lease, and whether
// that is on the same machine.
func (b *Before) volumeReuse(l driver.Lease) (driver.VolumeReuse, bool) {
	h := l.VolumeReuse()
	return h, h != nil && transfer.Machine(l) == transfer.Machine(b.Lease)
}

// ReuseInput puts an input that was staged for the attempt before into its place for this one:
// only what differs travels then. A small one comes as soon. local is where it is on this
// machine, and remote its place below the run's directory on the head's host.
func (b *Before) ReuseInput(ctx context.Context, l driver.Lease, head core.Host, local, remote string) {
	volumeReuse, is := b.volumeReuse(l)
	if !is || l.DirectTransfer() == nil {
		return
	}
	if info, err := os.Stat(local); err == nil && (info.IsDir() || info.Size() >= reuseFrom) {
		core.BestEffort(volumeReuse.ReuseVolume(ctx, path.Join(b.Lease.Hosts()[0].Dir, remote), path.Join(head.Dir, remote))) // then all of it travels
	}
}
