package control

import (
	"context"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// contentOf is the digest of what a data image of the user's holds.
func contentOf(ctx context.Context, file string) (string, error) {
	image, err := dataimage.Tools{}.OpenRecovered(ctx, file)
	if err != nil {
		return "", err
	}
	defer image.Close()
	return image.Digest(ctx)
}

// salvageImage does what salvage does with the volume where that is a data image
// which its head could not empty any more: the image comes home, is set right, and
// what the outputs name is taken out of it. False: there is no image.
func (a *attempt) salvageImage(ctx context.Context, head string, taken map[string]bool) (bool, error) {
	job := a.collecting()
	keep := job.Checkpoint != nil // of which it may be the newest
	switch {
	case job.VM == nil || job.Volume.Kind == spec.VolumeVirtio || len(job.Outputs) == 0 && !keep:
		return false, nil
	case job.SavesVM() && a.rec.Verdict.Goes(): // from machines that have it as it was when they were saved
		return job.Volume.Kind == spec.VolumeImage, nil
	}
	home := filepath.Join(a.c.Store.RunDir(a.run.ID), "volume.img")
	if err := a.fetchAs(ctx, driver.Transfer{Remote: protocol.VolumeImagePath(head), Local: home}); err != nil {
		if core.IsKind(err, core.NotFound) {
			return false, nil
		}
		return false, err
	}
	image, err := dataimage.Tools{}.OpenRecovered(ctx, home)
	if err != nil {
		return false, a.fetchFailed(err)
	}
	defer image.Close()
	for _, out := range job.Outputs {
		rel, ok := inputs.Below(job.Volume.Path, out.From)
		if !ok {
			continue
		}
		if err := a.takeOut(ctx, image, rel, out, taken); err != nil {
			return false, err
		}
	}
	if keep {
		if err := fsutil.SyncTree(ctx, home); err != nil {
			return false, a.fetchFailed(err)
		}
		a.event(ctx, event.VolumeImageKept{Path: home})
		return true, nil
	}
	return true, os.Remove(home)
}

// takeOut puts what a pattern matches in an image into a directory.
func (a *attempt) takeOut(ctx context.Context, image *dataimage.Image, pattern string, out spec.Output, taken map[string]bool) error {
	var wanted []string
	if pattern != "" {
		wanted = []string{pattern}
	}
	return a.pick(ctx, picking{out.To, a.sub.Job.Volume.Path, pattern, taken, out.Replace, nil}, func(into string) error { return image.Unload(ctx, into, wanted) })
}
