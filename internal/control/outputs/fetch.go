package outputs

import (
	"context"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

func (c *Collector) fetchAs(ctx context.Context, t driver.Transfer) error {
	if err := fsutil.MkdirAll(filepath.Dir(t.Local), 0o777); err != nil {
		return c.Failed(err)
	}
	err := transfer.WithinSpace(ctx, t, func(ctx context.Context, t driver.Transfer) error {
		return c.Site.Retry(ctx, func() error { return c.Site.Lease.Fetch(ctx, t) })
	})
	err = ledOut(t, err)
	if err != nil && !core.IsKind(err, core.NotFound) {
		return c.Failed(err)
	}
	return err
}

// KeepVolume fetches a volume, which is on this machine's disk then.
func (c *Collector) KeepVolume(ctx context.Context, head, to string) error {
	t := driver.Transfer{Remote: protocol.VolumeDir(head), Local: to, Progress: c.fetching("the volume", 0)}
	if err := c.fetchAs(ctx, t); err != nil {
		return err
	}
	if err := fsutil.SyncTree(ctx, to); err != nil {
		return c.Failed(err)
	}
	return nil
}

// Failed keeps the run open: its outputs are still on the site.
func (c *Collector) Failed(err error) error {
	return &core.Error{
		Kind: core.KindOf(err), Op: "collect the outputs of run", Object: c.Run.ID, Err: err,
		Remedy: "They are safe on site " + c.Site.Name + ". Put the cause right, then run `bee supervise`: it collects them and ends the run. `bee stop --without-outputs " + c.Run.ID + "` ends it without them.",
	}
}
