package control

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// uploads names the objects of a run of which a controller that was killed has sent parts.
func (c *Controller) uploads(run string) ([]string, error) {
	dir := outputs.UploadsDir(c.Store.RunDir(run))
	if is, err := fsutil.Exists(dir); !is || err != nil {
		return nil, err
	}
	return c.Remote.Uploads(dir)
}

// abortTime bounds the removal of their parts: the bucket may not answer any more.
const abortTime = time.Minute

// abortUploads removes those parts.
func (c *Controller) abortUploads(ctx context.Context, run string) error {
	if list, err := c.uploads(run); len(list) == 0 || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, abortTime)
	defer cancel()
	return c.Remote.AbortUploads(ctx, outputs.UploadsDir(c.Store.RunDir(run)))
}

// tryAbortUploads does so as far as the bucket answers: a sweep tries again.
func (r *controlled) tryAbortUploads(ctx context.Context) {
	if err := r.c.abortUploads(ctx, r.run.ID); err != nil {
		r.c.Log.Warn("parts of objects that were not sent whole could not be removed", "run", r.run.ID, "err", err)
	}
}
