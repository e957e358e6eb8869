package runner

import (
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// fetchAhead fetches the job's remote inputs before any hosts are requested, but for those that
// its checkpoint has.
func (d *drive) fetchAhead(ctx context.Context) error {
	job := d.sub.Job
	if d.moved {
		job = *inputs.WithoutVolume(&job)
	}
	return remoteFiles{d.controlled}.inputs().Fetch(ctx, &job)
}

// remoteFiles are a run's inputs from servers and buckets, and its outputs on their way to these.
type remoteFiles struct{ r *controlled }

// forget removes what is here of the remote inputs and outputs of a run that is over.
func (f remoteFiles) forget() {
	r := f.r
	if err := errors.Join(fsutil.RemoveAll(inputs.RemoteDir(r.c.Store.RunDir(r.run.ID))), fsutil.RemoveAll(outputs.SendingDir(r.c.Store.RunDir(r.run.ID)))); err != nil {
		r.c.Log.Warn("remote inputs and outputs could not be removed", "run", r.run.ID, "err", err)
	}
}

// inputs returns what has the run's remote inputs.
func (f remoteFiles) inputs() *inputs.Remote {
	r := f.r
	return &inputs.Remote{Dir: inputs.RemoteDir(r.c.Store.RunDir(r.run.ID)), Source: r.c.Remote, Progress: r.c.toward}
}

// uploads are the objects of which controllers that were killed have sent parts.
type uploads struct {
	store  *state.Store
	remote Remote
}

// unfinished names those of a run.
func (u uploads) unfinished(run string) ([]string, error) {
	dir := outputs.UploadsDir(u.store.RunDir(run))
	if is, err := fsutil.Exists(dir); !is || err != nil {
		return nil, err
	}
	return u.remote.Uploads(dir)
}

// abortTime bounds the removal of their parts: the bucket may not answer any more.
const abortTime = time.Minute

// abort removes the parts of a run's objects.
func (u uploads) abort(ctx context.Context, run string) error {
	if list, err := u.unfinished(run); len(list) == 0 || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, abortTime)
	defer cancel()
	return u.remote.AbortUploads(ctx, outputs.UploadsDir(u.store.RunDir(run)))
}

// tryAbort removes the parts of objects as far as the bucket answers: a sweep tries again.
func (f remoteFiles) tryAbort(ctx context.Context) {
	r := f.r
	if err := (uploads{r.c.Store, r.c.Remote}).abort(ctx, r.run.ID); err != nil {
		r.c.Log.Warn("parts of objects that were not sent whole could not be removed", "run", r.run.ID, "err", err)
	}
}
