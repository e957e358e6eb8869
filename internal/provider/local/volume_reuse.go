package local

import (
	"context"
	"strings"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// volumeReuse reuses the files of a lease on this machine.
type volumeReuse struct{ l *lease }

// LendVolume implements driver.VolumeReuse: it ends what is left of the nodes.
func (v volumeReuse) LendVolume(ctx context.Context) error {
	l := v.l
	unlock, err := leasedir.Lock(ctx, l.dir, false)
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.end(ctx); err != nil {
		return err
	}
	aside, err := leasedir.Aside(l.dir, l.base, l.owner)
	if err != nil {
		return err
	}
	for i, h := range l.details.Hosts {
		if below, is := strings.CutPrefix(h.Dir, leasedir.RunDir(l.base, l.owner.Run)); is {
			l.details.Hosts[i].Dir = aside + below
		}
	}
	return writeDetails(l.dir, l.details)
}

// ReuseVolume implements driver.VolumeReuse.
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
