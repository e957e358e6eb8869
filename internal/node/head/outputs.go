package head

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/treesync"
)

// maxLeft is how many things that stay behind are listed.
const maxLeft = 50

// outputs lists the files and directories that the outputs name, for which the job
// has ended on all hosts, and what of them cannot leave.
func (h *Head) outputs(ctx context.Context, dir string) (list []plan.OutputMatch, left []plan.LeftBehind) {
	list = []plan.OutputMatch{}
	stage, err := emptyStage(dir)
	if err != nil {
		h.log.Error("make the directory of staged outputs", "err", err)
		return list, []plan.LeftBehind{{Path: h.plan.Volume, Why: string(treesync.WhyFailed)}}
	}
	defer stage.Close()
	for i, o := range h.plan.Outputs {
		place, rel := h.plan.OnHost(dir, o)
		if place == "" {
			continue
		}
		c := chosen{log: h.log, index: i, stage: stage, dir: dir, rel: rel}
		if c.in, err = fsutil.OpenRoot(place); err != nil {
			continue // an input that was no directory, or nothing
		}
		c.in.Seen = path.Clean("/" + strings.TrimSuffix(path.Clean(o), rel))
		err = c.choose(ctx, len(list))
		c.in.Close()
		if err != nil {
			h.log.Error("list outputs", "from", o, "err", err)
			c.left = append(c.left, plan.LeftBehind{Path: o, Why: string(treesync.WhyFailed)})
		}
		list, left = append(list, c.list...), append(left, c.left...)
	}
	return list, left[:min(len(left), maxLeft)]
}

// emptyStage is the directory for outputs that cannot travel as they are in the volume.
func emptyStage(dir string) (*fsutil.Root, error) {
	r, err := fsutil.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := errors.Join(r.RemoveAll(plan.StagedDir), r.Mkdir(plan.StagedDir, 0o700)); err != nil {
		return nil, err
	}
	return r.Sub(plan.StagedDir)
}

// chosen is what one of the outputs names.
type chosen struct {
	log       *slog.Logger
	index     int
	in, stage *fsutil.Root
	dir, rel  string
	list      []plan.OutputMatch
	left      []plan.LeftBehind
}

func (c *chosen) choose(ctx context.Context, staged int) error {
	names, err := c.in.Glob(c.rel)
	if err != nil { // a directory that the job has shut
		treesync.MakeReadable(c.in, ".")
		if names, err = c.in.Glob(c.rel); err != nil && len(names) == 0 {
			return err
		}
	}
	o := treesync.Outputs{In: c.in, Stage: c.stage, Left: func(name string, why treesync.Why) {
		c.left = append(c.left, plan.LeftBehind{Path: path.Join(c.in.Seen, name), Why: string(why)})
	}}
	for _, name := range names {
		if target, err := c.in.Resolve(name); err == nil {
			treesync.MakeReadable(c.in, target) // what the job has shut would hold its run open for ever
		}
		as := fmt.Sprint(staged + len(c.list))
		from, isStaged, err := o.Prepare(ctx, name, as)
		if err != nil {
			c.log.Error("prepare an output", "name", c.in.Path(name), "err", err)
			o.Left(name, treesync.WhyFailed)
			continue
		}
		if from == "" {
			continue
		}
		root := c.in
		if isStaged {
			root = c.stage
		}
		m := plan.OutputMatch{Index: c.index, Path: c.below(c.in, name), Bytes: countBytes(ctx, root.Path(from))}
		if at := c.below(root, from); at != m.Path {
			m.From = at
		}
		c.list = append(c.list, m)
	}
	return nil
}

// below gives a name in a tree as one in the run's directory.
func (c *chosen) below(root *fsutil.Root, name string) string {
	return strings.TrimPrefix(root.Path(name), path.Clean(c.dir)+"/")
}

// volumeGlobs are the outputs that are in the volume, relative to it.
func (h *Head) volumeGlobs() []string {
	wanted := h.plan.Outputs
	if h.saver.wantsVolume() && !h.plan.SavesVM() { // what other hosts saved goes along
		wanted = append(append([]string{}, wanted...), h.plan.Checkpoint.Paths...)
		if len(h.plan.Checkpoint.Paths) == 0 {
			wanted = append(wanted, h.plan.Volume)
		}
	}
	return globsOf(h.plan, wanted)
}
