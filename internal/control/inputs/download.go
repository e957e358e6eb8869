package inputs

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Download is a remote input that the site fetches: the path at which it would be here, and
// its place below the run's directory there.
type Download struct {
	input        spec.Input
	file, remote string
}

// LeaveToSite takes those remote inputs out of a job that the site can fetch, and that are not
// here already. One that a later input may replace is brought in their order.
func (s *Stager) LeaveToSite(job *spec.Job) (left []Download, err error) {
	if s.Site.Lease.Downloads() == nil {
		return nil, nil
	}
	var stay []spec.Input
	for i, in := range job.Inputs {
		if !spec.IsRemote(in.From) {
			stay = append(stay, in)
			continue
		}
		file, err := s.Remote.file(in)
		if err != nil {
			return nil, err
		}
		here, err := fsutil.Exists(file)
		if err != nil {
			return nil, err
		}
		target := Target(job, in, path.Base(file), false, false)
		replaced := slices.ContainsFunc(job.Inputs[i+1:], func(later spec.Input) bool {
			_, over := Below(path.Clean(later.To), target)
			_, under := Below(target, path.Clean(later.To))
			return over || under
		})
		if here || replaced {
			stay = append(stay, in)
			continue
		}
		left = append(left, Download{in, file, Place(job, s.Binds, in, target)})
	}
	job.Inputs = stay
	return left, nil
}

// Download has the head's host fetch remote inputs. What it cannot fetch comes through this
// machine.
func (s *Stager) Download(ctx context.Context, head core.Host, left []Download) error {
	for _, d := range left {
		err := s.downloadThere(ctx, head, d)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			s.Site.Record(ctx, event.RemoteInput{Input: d.input.From, Site: s.Site.Name})
			continue
		}
		if !errors.As(err, new(driver.DownloadError)) { // the site does not answer
			return err
		}
		cause := event.CauseOf(err)
		s.Site.Record(ctx, event.RemoteInput{Input: d.input.From, Site: s.Site.Name, Cause: &cause})
		job := spec.Job{Inputs: []spec.Input{d.input}}
		if err := s.Remote.Fetch(ctx, &job); err != nil {
			return err
		}
		if err := s.Stage(ctx, head, []Copy{{Local: job.Inputs[0].From, Remote: d.remote}}); err != nil {
			return err
		}
	}
	return nil
}

// downloadThere does so with one. A driver.DownloadError: it has to come through this machine.
func (s *Stager) downloadThere(ctx context.Context, head core.Host, d Download) error {
	if err := fsutil.MkdirAll(filepath.Dir(d.file), 0o700); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "fetch", Object: d.input.From, Err: err}
	}
	var failed driver.DownloadError
	err := s.Site.Retry(ctx, func() error {
		away, err := s.Remote.Source.Away(ctx, d.input, d.file) // for each try: a signed URL expires
		if err != nil {
			failed.Err = err
			return nil
		}
		away.Dir, away.Part, away.Remote = head.Dir, path.Join("downloads", DirName(d.remote), "file"), d.remote
		away.Progress = s.Site.Progress(core.PhaseStage, "site "+s.Site.Name+" fetches "+path.Base(d.file), 0)
		got, err := s.Site.Lease.Downloads().Download(ctx, away)
		if err == nil {
			if err := s.Remote.Source.Arrived(away, got, d.file); err != nil {
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
