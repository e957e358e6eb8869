package control

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
)

// remoteDir is the directory in a run's with its remote inputs, until the run is over.
func (r *controlled) remoteDir() string {
	return filepath.Join(r.c.Store.RunDir(r.run.ID), "remote")
}

// remoteFile is where a remote input lies here.
func (r *controlled) remoteFile(in spec.Input) (string, error) {
	from, _, err := spec.ParseRemote(in.From)
	if err != nil {
		return "", inputs.Error(in, err)
	}
	return filepath.Join(r.remoteDir(), inputs.DirName(in.From+"\n"+in.SHA256), from.Name()), nil
}

// fetchAhead fetches the job's remote inputs before any hosts are requested, but for those that
// its checkpoint has.
func (d *drive) fetchAhead(ctx context.Context) error {
	job := d.sub.Job
	if d.moved {
		job = *inputs.WithoutVolume(&job)
	}
	return d.fetchRemote(ctx, &job)
}

// fetchRemote fetches the remote inputs of a job, unless they are here, and names the files in
// the job in their place.
func (r *controlled) fetchRemote(ctx context.Context, job *spec.Job) error {
	job.Inputs = slices.Clone(job.Inputs)
	for i, in := range job.Inputs {
		if !spec.IsRemote(in.From) {
			continue
		}
		file, err := r.remoteFile(in)
		if err != nil {
			return err
		}
		if err := fsutil.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return &core.Error{Kind: core.KindOf(err), Op: "fetch", Object: in.From, Err: err}
		}
		t := driver.Transfer{Local: file, Progress: r.c.toward(core.PhaseStage, "fetching "+path.Base(file), 0)}
		err = transfer.WithinSpace(ctx, t, func(ctx context.Context, t driver.Transfer) error { return r.c.Remote.Fetch(ctx, in, file, t.Progress) })
		if err != nil {
			return err
		}
		job.Inputs[i].From = file
	}
	return nil
}

// forgetRemote removes what is here of the remote inputs and outputs of a run that is over.
func (r *controlled) forgetRemote() {
	if err := errors.Join(fsutil.RemoveAll(r.remoteDir()), fsutil.RemoveAll(outputs.SendingDir(r.c.Store.RunDir(r.run.ID)))); err != nil {
		r.c.Log.Warn("remote inputs and outputs could not be removed", "run", r.run.ID, "err", err)
	}
}
