package slurm

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Entrust implements driver.Autostart: the orders lie in the lease's
// directory, for the user alone, under a name that no agent looks at.
func (l *lease) Entrust(_ context.Context, orders []byte) error {
	if err := fsutil.WriteFile(filepath.Join(l.dir, draftName), orders, 0o600); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	return nil
}

// Attend implements driver.Autostart. The first agent of the job finds the mark by
// its name.
func (l *lease) Attend(context.Context) error {
	mark := filepath.Join(l.dir, attendedName)
	if there, err := fsutil.Exists(mark); err != nil || there {
		return err
	}
	if err := fsutil.WriteFile(mark, nil, 0o600); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	return nil
}

// Commit implements driver.Autostart. The first agent of the job finds the
// orders by their name, whether it runs already or will only in days.
func (l *lease) Commit(context.Context) error {
	orders := filepath.Join(l.dir, ordersName)
	if there, err := fsutil.Exists(orders); err != nil || there {
		return err
	}
	err := fsutil.Rename(filepath.Join(l.dir, draftName), orders)
	if errors.Is(err, fs.ErrNotExist) {
		return &core.Error{Kind: core.NotFound, Op: "put the orders in force for", Object: l.owner.String(), Err: err}
	}
	if err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	return nil
}
