package control

import (
	"context"
	"encoding/json"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/driver"
)

// storeFrom gives the run's store as the attempt's site uses it best: where the
// head's host sees the store's directory itself, it reads and writes there; where it
// reaches the store's host, or that one it, they speak with each other. Then nothing
// passes through this machine.
func (a *attempt) storeFrom(ctx context.Context) (checkpoint.Store, error) {
	store, err := a.store()
	if err != nil {
		return nil, err
	}
	far := a.lease.StoreAccess()
	if far == nil || a.sub.Job.Store == "" {
		return store, nil
	}
	marker, ok := a.where.(checkpoint.Marker)
	if !ok {
		return store, nil
	}
	mark, unmark, err := marker.Mark(ctx)
	if err != nil {
		return nil, a.storeFailed("use the store of run", err)
	}
	defer unmark()
	if sees, err := far.Sees(ctx, mark); err != nil || !sees {
		return a.straight(store), nil //nolint:nilerr // then it goes another way, which tells what is wrong
	}
	return seen{store, far, checkpoint.SeenDir(mark, a.c.storeName(&a.sub, a.run.ID))}, nil
}

// seen is a store that is used by a site's host itself.
type seen struct {
	checkpoint.Store
	far driver.StoreAccess
	dir string // of the run, as the host sees it
}

// Keep implements checkpoint.Store.
func (s seen) Keep(ctx context.Context, g checkpoint.Generation, site string, from checkpoint.Source) (checkpoint.Manifest, bool, error) {
	r, err := s.ask(ctx, checkpoint.Request{Op: checkpoint.OpKeep, Dir: s.dir, Generation: g, Site: site, Path: from.(tree).remote})
	return r.Manifest, r.Made, err
}

// Restore implements checkpoint.Store.
func (s seen) Restore(ctx context.Context, k checkpoint.Kept, to checkpoint.Sink) error {
	_, err := s.ask(ctx, checkpoint.Request{Op: checkpoint.OpRestore, Dir: s.dir, Kept: k, Path: to.(tree).remote})
	return err
}

func (s seen) ask(ctx context.Context, q checkpoint.Request) (checkpoint.Reply, error) {
	raw, err := json.Marshal(q)
	if err != nil {
		return checkpoint.Reply{}, err
	}
	return checkpoint.Answer(s.far.Serve(ctx, raw))
}
