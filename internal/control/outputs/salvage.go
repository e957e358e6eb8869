package outputs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// Salvage fetches what the outputs match when the head died before it could
// list them: the directory before the first wildcard is collected, and what
// matches is kept.
func (c *Collector) Salvage(ctx context.Context, head string) error {
	taken := map[string]bool{}
	inImage, err := c.salvageImage(ctx, head, taken)
	if err != nil {
		return err
	}
	job := c.collecting()
	inside := protocol.Plan{Volume: job.Volume.Path, Binds: inputs.Binds(job)}
	for i, out := range job.Outputs {
		root, rel := inside.OnHost(head, out.From)
		if root == "" || inImage && root == protocol.VolumeDir(head) {
			continue
		}
		fixed, pattern := splitGlob(rel)
		within, seen := root, path.Clean("/"+strings.TrimSuffix(path.Clean(out.From), rel))
		if pattern == "" {
			err = c.fetch(ctx, output{index: i, path: rel, remote: path.Join(root, fixed), within: within, seen: seen, to: out.To, name: unused(taken, out.To, path.Base(out.From), fixed), replace: out.Replace, partial: true})
		} else {
			fetch := func(name, into string) error {
				return c.fetchAs(ctx, driver.Transfer{Remote: path.Join(root, fixed, name), Within: within, Seen: seen, Local: into, Progress: c.fetching(out.From, 0)})
			}
			err = c.pick(ctx, picking{out.To, out.From, pattern, taken, out.Replace, fetch}, func(into string) error {
				err := fetch("", into)
				if core.IsKind(err, core.NotFound) {
					return nil
				}
				return err
			})
		}
		switch {
		case errors.Is(err, errLeadsOut):
			c.Site.Record(ctx, event.DanglingLinks{From: out.From, Count: 1, First: fixed})
		case err != nil && !core.IsKind(err, core.NotFound):
			return err
		}
	}
	return nil
}

// errLeadsOut is the cause where a link of the job's leads out of its volume, or to nothing.
var errLeadsOut = errors.New("a link leads out of the volume, or to nothing in it")

// ledOut names that cause in an error of Fetch.
func ledOut(t driver.Transfer, err error) error {
	if t.Within != "" && core.IsKind(err, core.Invalid) {
		return fmt.Errorf("%w: %w", errLeadsOut, err)
	}
	return err
}

// salvageImage does what salvage does with the volume where that is a data image
// which its head could not empty any more: the image is collected and repaired, and
// what the outputs name is taken out of it. False: there is no image.
func (c *Collector) salvageImage(ctx context.Context, head string, taken map[string]bool) (bool, error) {
	job := c.collecting()
	keep := job.Checkpoint != nil // of which it may be the newest
	switch {
	case job.VM == nil || job.Volume.Kind == spec.VolumeVirtio || len(job.Outputs) == 0 && !keep:
		return false, nil
	case job.SavesVM() && c.Attempt.Verdict.Goes(): // from machines that have it as it was when they were saved
		return job.Volume.Kind == spec.VolumeImage, nil
	}
	home := filepath.Join(c.Dir, "volume.img")
	if err := c.fetchAs(ctx, driver.Transfer{Remote: protocol.VolumeImagePath(head), Local: home}); err != nil {
		if core.IsKind(err, core.NotFound) {
			return false, nil
		}
		return false, err
	}
	image, err := dataimage.Tools{}.OpenRecovered(ctx, home)
	if err != nil {
		return false, c.Failed(err)
	}
	defer image.Close()
	for _, out := range job.Outputs {
		rel, ok := inputs.Below(job.Volume.Path, out.From)
		if !ok {
			continue
		}
		if err := c.takeOut(ctx, image, rel, out, taken); err != nil {
			return false, err
		}
	}
	if keep {
		if err := fsutil.SyncTree(ctx, home); err != nil {
			return false, c.Failed(err)
		}
		c.Site.Record(ctx, event.VolumeImageKept{Path: home})
		return true, nil
	}
	return true, os.Remove(home)
}
