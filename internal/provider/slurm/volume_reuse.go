package slurm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// volumeReuse reuses the files of a lease in the shared scratch.
type volumeReuse struct{ l *lease }

// LendVolume implements driver.VolumeReuse: it ends the job, and leaves its files.
func (v volumeReuse) LendVolume(ctx context.Context) error {
	l := v.l
	unlock, err := leasedir.Lock(ctx, l.dir, true)
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.read(); err != nil {
		return err
	}
	if err := l.endJobs(ctx); err != nil {
		return err
	}
	aside, err := leasedir.Aside(l.dir, l.base, l.owner)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.details.Dir, l.terms = aside, nil
	if err := os.Remove(filepath.Join(l.dir, grantedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeJSON(filepath.Join(l.dir, detailsName), l.details)
}

// ReuseVolume implements driver.VolumeReuse, in the shared scratch.
func (volumeReuse) ReuseVolume(_ context.Context, from, to string) error {
	return leasedir.ReuseVolume(from, to)
}

// Look implements driver.VolumeReuse.
func (volumeReuse) Look(ctx context.Context, t driver.Transfer) (driver.Lent, error) {
	return leasedir.Look(ctx, t)
}

// CopyTree implements driver.VolumeReuse.
func (volumeReuse) CopyTree(ctx context.Context, t driver.Transfer, via, to string) error {
	return leasedir.CopyTree(ctx, t, via, to)
}
