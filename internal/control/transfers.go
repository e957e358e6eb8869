package control

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Routes is what is known of how machines reach each other. The zero value is ready for use.
type Routes = transfer.Routes

// transfers returns the attempt's site as one end of transfers.
func (a *attempt) transfers() *transfer.Site {
	return &transfer.Site{
		Name: a.site.Name, Lease: a.lease, Routes: a.c.Routes, Breaks: &a.breaks,
		Progress: a.c.toward, Record: a.event, RecordRoute: a.recordRoute,
	}
}

// treeOf returns a directory of so many bytes on the head's host, 0 where that is not known.
func (a *attempt) treeOf(remote string, bytes int64) transfer.Tree {
	return transfer.Tree{Site: a.transfers(), Remote: remote, Size: bytes}
}

// storeFrom returns the run's store as the attempt's site uses it best.
func (a *attempt) storeFrom(ctx context.Context) (driver.Checkpoints, error) {
	store, err := a.checkpoints().Store()
	if err != nil || a.sub.Job.Store == "" {
		return store, err
	}
	best, err := a.transfers().StoreOf(ctx, store, a.checkpoints().Opened(), a.checkpoints().Name)
	if err != nil {
		return nil, a.checkpoints().Failed("use the store of run", err)
	}
	return best, nil
}

// same compares a directory on the head's host with the checkpoint in the store: a run
// continues from nothing else.
func (a *attempt) same(ctx context.Context, k driver.Checkpoint, remote string) error {
	same, err := a.lease.Matches(ctx, remote, k.Manifest)
	if err == nil && !same {
		err = errOther
	}
	if err == nil {
		a.sameAs = k.Manifest.Digest()
	}
	return err
}

var errOther = errors.New("it is not the one in the run's store") //nolint:gochecknoglobals // a constant

// interrupted reports whether a transfer has ended for the connection, or for the user:
// another route does not help then.
func interrupted(ctx context.Context, err error) bool {
	return core.IsKind(err, core.Lost) || core.IsKind(err, core.Transient) || ctx.Err() != nil
}
