package control

import (
	"context"
	"crypto/rand"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/driver"
)

// storeFrom gives the run's store as the attempt's site uses it best: where the
// head's host sees the store's directory itself, it reads and writes there; where it
// reaches the store's host, or that one it, they speak with each other. Then nothing
// passes through this machine.
func (a *attempt) storeFrom(ctx context.Context) (driver.Checkpoints, error) {
	store, err := a.store()
	if err != nil {
		return nil, err
	}
	far := a.lease.StoreAccess()
	if far == nil || a.sub.Job.Store == "" {
		return store, nil
	}
	shared := a.where.SharedDirectory()
	if shared == nil {
		return store, nil
	}
	mark := driver.MarkPrefix + rand.Text()
	if err := shared.Mark(ctx, mark); err != nil {
		return nil, a.storeFailed("use the store of run", err)
	}
	defer shared.Unmark(context.WithoutCancel(ctx), mark) //nolint:errcheck // an empty file
	if sees, err := far.Sees(ctx, filepath.Join(shared.Path(), mark)); err != nil || !sees {
		return a.straight(store), nil //nolint:nilerr // then it goes another way, which tells what is wrong
	}
	return seen{store, far, filepath.Join(shared.Path(), a.c.storeName(&a.sub, a.run.ID))}, nil
}

// seen is a store that is used by a site's host itself.
type seen struct {
	driver.Checkpoints
	far driver.StoreAccess
	dir string // of the run, as the host sees it
}

// Keep implements driver.Checkpoints.
func (s seen) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (driver.Manifest, bool, error) {
	return s.far.Keep(ctx, s.dir, g, site, from.(tree).remote)
}

// Restore implements driver.Checkpoints.
func (s seen) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	return s.far.Restore(ctx, s.dir, k, to.(tree).remote)
}
