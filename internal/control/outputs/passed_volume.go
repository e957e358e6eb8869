package outputs

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// PassVolume fetches paths of the volume, which are on this machine's disk then, to a
// directory that it returns. What is not there, or leads out of the volume, is left out.
func (c *Collector) PassVolume(ctx context.Context, head string, paths map[string]bool) (to string, err error) {
	volume, to := protocol.VolumeDir(head), retention.PassedVolume(c.Dir)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		t := driver.Transfer{
			Remote: path.Join(volume, p), Within: volume, Seen: c.Job.Volume.Path, Local: retention.PassedAt(c.Dir, p), Progress: c.fetching(path.Base(p), 0),
		}
		if err := c.fetchAs(ctx, t); err != nil && !core.IsKind(err, core.NotFound) && !errors.Is(err, errLeadsOut) {
			return to, err
		}
	}
	if is, err := fsutil.Exists(to); !is || err != nil {
		return to, err
	}
	if err := fsutil.SyncTree(ctx, to); err != nil {
		return to, c.Failed(err)
	}
	return to, nil
}
