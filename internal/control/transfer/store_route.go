package transfer

import (
	"context"
	"crypto/rand"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// StoreOf returns a run's store as the site uses it best: where the head's host sees the
// directory of the opened store itself, it reads and writes there; where it reaches the
// store's host, or that one it, they exchange trees directly; and where it reaches a bucket, it
// stores trees there. Then nothing passes through this machine. name is that of the run's directory in the store.
func (s *Site) StoreOf(ctx context.Context, checkpoints driver.Checkpoints, opened driver.Store, name string) (driver.Checkpoints, error) {
	if bucket := opened.Bucket(); bucket != nil {
		if host := s.Lease.DirectTransfer(); host != nil {
			return bucketStore{checkpoints, s, bucket, host, name, opened.String()}, nil
		}
		return checkpoints, nil
	}
	far := s.Lease.StoreAccess()
	if far == nil {
		return checkpoints, nil
	}
	shared := opened.SharedDirectory()
	if shared == nil {
		return checkpoints, nil
	}
	mark := driver.MarkPrefix + rand.Text()
	if err := shared.Mark(ctx, mark); err != nil {
		return nil, err
	}
	defer func() { core.BestEffort(shared.Unmark(context.WithoutCancel(ctx), mark)) }() // an empty file
	if sees, err := far.Sees(ctx, filepath.Join(shared.Path(), mark)); err != nil || !sees {
		return s.direct(checkpoints, opened), nil // the other route reports what is wrong
	}
	return seenStore{checkpoints, far, filepath.Join(shared.Path(), name)}, nil
}

// direct returns the store as one that exchanges trees with the site directly, where both
// have an agent.
func (s *Site) direct(checkpoints driver.Checkpoints, opened driver.Store) driver.Checkpoints {
	site, place := s.Lease.DirectTransfer(), opened.Connector()
	if site == nil || place == nil {
		return checkpoints
	}
	return directStore{checkpoints, s, site, place}
}

// seenStore is a store that a site's host uses itself.
type seenStore struct {
	driver.Checkpoints
	far driver.StoreAccess
	dir string // of the run, as the host sees it
}

// BySite reports whether a store that StoreOf returned is used by the site's host itself.
func BySite(store driver.Checkpoints) bool {
	_, is := store.(seenStore)
	return is
}

// Keep implements driver.Checkpoints.
func (s seenStore) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (driver.Manifest, bool, error) {
	return s.far.Keep(ctx, s.dir, g, site, from.(Tree).Remote)
}

// Restore implements driver.Checkpoints.
func (s seenStore) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	return s.far.Restore(ctx, s.dir, k, to.(Tree).Remote)
}
