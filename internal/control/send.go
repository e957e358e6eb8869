package control

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
)

// sendingDir is the directory in a run's where its outputs lie that go to buckets.
func (r *controlled) sendingDir() string {
	return filepath.Join(r.c.Store.RunDir(r.run.ID), "sending")
}

// sendingFrom is where those of one place lie. All of one place are together, so that equal
// names are found as in a directory of the user's.
func (r *controlled) sendingFrom(place string) string {
	return filepath.Join(r.sendingDir(), shortSum(place))
}

// uploadsDir is the directory in a run's with notes of objects of which parts were sent.
func (c *Controller) uploadsDir(run string) string {
	return filepath.Join(c.Store.RunDir(run), "uploads")
}

// uploads names the objects of a run of which a controller that was killed has sent parts.
func (c *Controller) uploads(run string) ([]string, error) {
	dir := c.uploadsDir(run)
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
	return c.Remote.AbortUploads(ctx, c.uploadsDir(run))
}

// tryAbortUploads does so as far as the bucket answers: a sweep tries again.
func (r *controlled) tryAbortUploads(ctx context.Context) {
	if err := r.c.abortUploads(ctx, r.run.ID); err != nil {
		r.c.Log.Warn("parts of objects that were not sent whole could not be removed", "run", r.run.ID, "err", err)
	}
}

// collecting is the job with directories of this machine in place of buckets.
func (r *controlled) collecting() *spec.Job {
	job := r.sub.Job
	job.Outputs = slices.Clone(job.Outputs)
	for i, o := range job.Outputs {
		if spec.IsRemote(o.To) {
			job.Outputs[i].To = r.sendingFrom(o.To)
		}
	}
	return &job
}

// placeShown is the place of outputs that are collected in a directory, as the user named it.
func (r *controlled) placeShown(dir string) string {
	for _, o := range r.sub.Job.Outputs {
		if spec.IsRemote(o.To) && r.sendingFrom(o.To) == dir {
			return o.To
		}
	}
	return dir
}

// sendOutputs stores what was collected for buckets there. It is done again where it did not
// end.
func (a *attempt) sendOutputs(ctx context.Context) error {
	replace := map[string]bool{}
	var places []string
	for _, o := range a.sub.Job.Outputs {
		if !spec.IsRemote(o.To) {
			continue
		}
		if !slices.Contains(places, o.To) {
			places = append(places, o.To)
		}
		replace[o.To] = replace[o.To] || o.Replace
	}
	a.tryAbortUploads(ctx)
	for _, place := range places {
		root, err := fsutil.OpenRoot(a.sendingFrom(place))
		if errors.Is(err, fs.ErrNotExist) {
			continue // no output matched
		}
		if err == nil {
			err = errors.Join(a.sendTree(ctx, root, place, replace[place]), root.Close())
		}
		if err != nil {
			return a.sendFailed(place, err)
		}
	}
	return nil
}

// sendTree stores all files of a tree, which a job has filled, and what links in it lead to.
func (a *attempt) sendTree(ctx context.Context, root *fsutil.Root, place string, replace bool) error {
	to, err := a.c.Remote.Place(ctx, place, Writer{Run: a.run.ID, Name: a.c.Store.User() + "/" + a.run.Name, Uploads: a.c.uploadsDir(a.run.ID)})
	if err != nil {
		return err
	}
	report, sent := a.c.toward(core.PhaseCollect, "sending outputs to "+place, 0), int64(0)
	return root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		is := name
		if info.Mode()&fs.ModeSymlink != 0 {
			if is, err = root.Resolve(name); err != nil {
				return nil //nolint:nilerr // it leads to nothing that was collected, which was reported
			}
			if info, err = root.Lstat(is); err != nil {
				return err
			}
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		file, err := root.Open(is)
		if err != nil {
			return err
		}
		defer file.Close()
		err = to.Send(ctx, name, file, replace)
		if errors.Is(err, fs.ErrExist) {
			beside := name + "." + a.run.ID
			if err = to.Send(ctx, beside, file, true); err == nil {
				a.event(ctx, event.OutputRenamed{Path: place + "/" + beside})
			}
		}
		sent += info.Size()
		report(sent)
		return err
	})
}

// sendFailed keeps the run open: its outputs are still on the site.
func (a *attempt) sendFailed(place string, err error) error {
	return &core.Error{
		Kind: core.KindOf(err), Op: "send outputs to", Object: place, Err: err,
		Remedy: core.Remedy(err) + " The outputs are safe on site " + a.site.Name + ": `bee supervise` sends them, and `bee stop --without-outputs " + a.run.ID + "` ends the run without them.",
	}
}
