package control

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
)

// download is a remote input that the site fetches: the path at which it would be here, and
// its place below the run's directory there.
type download struct {
	input        spec.Input
	file, remote string
}

// leaveToSite takes those remote inputs out of a job that the site can fetch, and that are not
// here already. One that a later input may replace is brought in their order.
func (a *attempt) leaveToSite(job *spec.Job) (left []download, err error) {
	if a.lease.Downloads() == nil {
		return nil, nil
	}
	var stay []spec.Input
	for i, in := range job.Inputs {
		if !spec.IsRemote(in.From) {
			stay = append(stay, in)
			continue
		}
		file, err := a.remoteFile(in)
		if err != nil {
			return nil, err
		}
		here, err := fsutil.Exists(file)
		if err != nil {
			return nil, err
		}
		target := inputs.Target(job, in, path.Base(file), false, false)
		replaced := slices.ContainsFunc(job.Inputs[i+1:], func(later spec.Input) bool {
			_, over := inputs.Below(path.Clean(later.To), target)
			_, under := inputs.Below(target, path.Clean(later.To))
			return over || under
		})
		if here || replaced {
			stay = append(stay, in)
			continue
		}
		left = append(left, download{in, file, inputs.Place(job, a.binds, in, target)})
	}
	job.Inputs = stay
	return left, nil
}

// download has the head's host fetch remote inputs. What it cannot fetch comes through this
// machine.
func (a *attempt) download(ctx context.Context, head core.Host, left []download) error {
	for _, d := range left {
		err := a.downloadThere(ctx, head, d)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			a.event(ctx, event.RemoteInput{Input: d.input.From, Site: a.site.Name})
			continue
		}
		if !errors.As(err, new(driver.DownloadError)) { // the site does not answer
			return err
		}
		cause := event.CauseOf(err)
		a.event(ctx, event.RemoteInput{Input: d.input.From, Site: a.site.Name, Cause: &cause})
		job := spec.Job{Inputs: []spec.Input{d.input}}
		if err := a.fetchRemote(ctx, &job); err != nil {
			return err
		}
		if err := a.stageInputs(ctx, head, []inputs.Copy{{Local: job.Inputs[0].From, Remote: d.remote}}); err != nil {
			return err
		}
	}
	return nil
}

// downloadThere does so with one. A driver.DownloadError: it has to come through this machine.
func (a *attempt) downloadThere(ctx context.Context, head core.Host, d download) error {
	if err := fsutil.MkdirAll(filepath.Dir(d.file), 0o700); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "fetch", Object: d.input.From, Err: err}
	}
	var failed driver.DownloadError
	err := a.transfers().Retry(ctx, func() error {
		away, err := a.c.Remote.Away(ctx, d.input, d.file) // for each try: a signed URL expires
		if err != nil {
			failed.Err = err
			return nil
		}
		away.Dir, away.Part, away.Remote = head.Dir, path.Join("downloads", inputs.DirName(d.remote), "file"), d.remote
		away.Progress = a.c.toward(core.PhaseStage, "site "+a.site.Name+" fetches "+path.Base(d.file), 0)
		got, err := a.lease.Downloads().Download(ctx, away)
		if err == nil {
			if err := a.c.Remote.Arrived(away, got, d.file); err != nil {
				failed.Err = err
			}
			return nil
		}
		if errors.As(err, &failed) {
			return nil
		}
		return err
	})
	if err == nil && failed.Err != nil {
		return failed
	}
	return err
}

// missing is the job without those inputs that its checkpoint has: what they were made of
// at home may be gone by now.
func (a *attempt) missing() *spec.Job {
	if a.resumed {
		return inputs.WithoutVolume(&a.sub.Job)
	}
	job := a.sub.Job
	return &job
}
