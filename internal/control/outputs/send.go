package outputs

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
)

// SendingDir is the directory in a run's where its outputs lie that go to buckets.
func SendingDir(runDir string) string { return filepath.Join(runDir, "sending") }

// UploadsDir is the directory in a run's with notes of objects of which parts were sent.
func UploadsDir(runDir string) string { return filepath.Join(runDir, "uploads") }

// sendingFrom is where those of one place lie. All of one place are together, so that equal
// names are found as in a directory of the user's.
func (c *Collector) sendingFrom(place string) string {
	return filepath.Join(SendingDir(c.Dir), inputs.DirName(place))
}

// collecting is the job with directories of this machine in place of buckets.
func (c *Collector) collecting() *spec.Job {
	job := *c.Job
	job.Outputs = slices.Clone(job.Outputs)
	for i, o := range job.Outputs {
		if spec.IsRemote(o.To) {
			job.Outputs[i].To = c.sendingFrom(o.To)
		}
	}
	return &job
}

// placeShown is the place of outputs that are collected in a directory, as the user named it.
func (c *Collector) placeShown(dir string) string {
	for _, o := range c.Job.Outputs {
		if spec.IsRemote(o.To) && c.sendingFrom(o.To) == dir {
			return o.To
		}
	}
	return dir
}

// Send stores what was collected for buckets there. It is done again where it did not
// end.
func (c *Collector) Send(ctx context.Context) error {
	replace := map[string]bool{}
	var places []string
	for _, o := range c.Job.Outputs {
		if !spec.IsRemote(o.To) {
			continue
		}
		if !slices.Contains(places, o.To) {
			places = append(places, o.To)
		}
		replace[o.To] = replace[o.To] || o.Replace
	}
	for _, place := range places {
		root, err := fsutil.OpenRoot(c.sendingFrom(place))
		if errors.Is(err, fs.ErrNotExist) {
			continue // no output matched
		}
		if err == nil {
			err = errors.Join(c.sendTree(ctx, root, place, replace[place]), root.Close())
		}
		if err != nil {
			return c.sendFailed(place, err)
		}
	}
	return nil
}

// sendTree stores all files of a tree, which a job has filled, and what links in it lead to.
func (c *Collector) sendTree(ctx context.Context, root *fsutil.Root, place string, replace bool) error {
	to, err := c.Remote.Place(ctx, place, Writer{Run: c.Run.ID, Name: c.User + "/" + c.Run.Name, Uploads: UploadsDir(c.Dir)})
	if err != nil {
		return err
	}
	report, sent := c.Site.Progress(core.PhaseCollect, "sending outputs to "+place, 0), int64(0)
	return root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		is := name
		if info.Mode()&fs.ModeSymlink != 0 {
			if is, err = root.Resolve(name); err != nil {
				return nil // it leads to nothing that was collected, which was reported
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
			beside := name + "." + c.Run.ID
			if err = to.Send(ctx, beside, file, true); err == nil {
				c.Site.Record(ctx, event.OutputRenamed{Path: place + "/" + beside})
			}
		}
		sent += info.Size()
		report(sent)
		return err
	})
}

// sendFailed keeps the run open: its outputs are still on the site.
func (c *Collector) sendFailed(place string, err error) error {
	return &core.Error{
		Kind: core.KindOf(err), Op: "send outputs to", Object: place, Err: err,
		Remedy: core.Remedy(err) + " The outputs are safe on site " + c.Site.Name + ": `bee supervise` sends them, and `bee stop --without-outputs " + c.Run.ID + "` ends the run without them.",
	}
}
