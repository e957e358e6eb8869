package outputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// Salvage fetches what the outputs match when the head died before it could
// list them: the directory before the first wildcard is collected, and what
// matches is kept. Others are hosts whose volumes the head would have gathered: what the
// ones before have not is added.
func (c *Collector) Salvage(ctx context.Context, head string, others []core.Host) error {
	rest := &volumes{c: c, hosts: others}
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
		also := rest
		if root != protocol.VolumeDir(head) {
			also = &volumes{c: c} // of inputs, the hosts have the head's copy
		}
		arrivals := c.arrivals()
		within, seen := root, path.Clean("/"+strings.TrimSuffix(path.Clean(out.From), rel))
		if pattern == "" && len(also.hosts) == 0 {
			err = c.fetch(ctx, output{index: i, path: rel, remote: path.Join(root, fixed), within: within, seen: seen, to: out.To, name: unused(taken, out.To, path.Base(out.From), fixed), replace: out.Replace, partial: true})
		} else {
			fetch := func(name, into string) error {
				return c.fetchAs(ctx, driver.Transfer{Remote: path.Join(root, fixed, name), Within: within, Seen: seen, Local: into, Progress: c.fetching(out.From, 0)})
			}
			err = c.pick(ctx, picking{out.To, out.From, pattern, fixed, taken, out.Replace, fetch}, func(into string) error {
				if err := fetch("", into); err != nil && !core.IsKind(err, core.NotFound) {
					return err
				}
				return also.add(ctx, fixed, seen, into)
			})
		}
		switch {
		case errors.Is(err, errLeadsOut):
			c.Site.Record(ctx, event.DanglingLinks{From: out.From, Count: 1, First: fixed})
		case err != nil && !core.IsKind(err, core.NotFound):
			return err
		case c.arrivals() > arrivals:
			c.came(i)
		}
	}
	return nil
}

// volumes are those of hosts that share none with the head.
type volumes struct {
	c     *Collector
	hosts []core.Host
}

// add fetches a file or directory of theirs, and adds what has not come yet of it. A host
// that does not answer is left out from then on: the head, which is lost, may be no reason
// to lose the outputs of all.
func (v *volumes) add(ctx context.Context, name, seen, into string) error {
	root, err := fsutil.OpenRoot(filepath.Dir(into))
	if err != nil {
		return err
	}
	defer root.Close()
	const other = ".other"
	for _, h := range slices.Clone(v.hosts) {
		volume := protocol.VolumeDir(h.Dir)
		if err := root.RemoveAll(other); err != nil {
			return err
		}
		err := v.c.fetchAs(ctx, driver.Transfer{Host: h.Index, Remote: path.Join(volume, name), Within: volume, Seen: seen, Local: root.Path(other)})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case core.IsKind(err, core.NotFound) || errors.Is(err, errLeadsOut):
			continue
		case core.IsKind(err, core.Transient) || core.IsKind(err, core.Lost):
			v.c.Site.Record(ctx, event.HostLeftOut{Host: h.Name, Cause: event.CauseOf(err)})
			v.hosts = slices.DeleteFunc(v.hosts, func(o core.Host) bool { return o.Index == h.Index })
			continue
		case err != nil:
			return err
		}
		if err := join(ctx, root, other, filepath.Base(into)); err != nil {
			return err
		}
	}
	return root.RemoveAll(other)
}

// join adds what is at one name of a directory to what is at another.
func join(ctx context.Context, root *fsutil.Root, from, into string) error {
	there, err := root.Lstat(into)
	if errors.Is(err, fs.ErrNotExist) {
		return root.Rename(from, root, into)
	}
	came, cerr := root.Lstat(from)
	if err := errors.Join(err, cerr); err != nil || !there.IsDir() || !came.IsDir() {
		return err
	}
	have, err := root.Sub(into)
	if err != nil {
		return err
	}
	defer have.Close()
	more, err := root.Sub(from)
	if err != nil {
		return err
	}
	defer more.Close()
	return treesync.Add(ctx, more, have)
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
