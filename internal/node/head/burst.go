package head

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Burst is a burst buffer that is mounted on this host. Its processes outlive the node.
type Burst interface {
	// Dir is where it is mounted.
	Dir() string
	// End unmounts it, and returns once the remote has everything, with notes on what others
	// have changed there. What is undrained when ctx ends is an error, and stays in the buffer.
	End(ctx context.Context) (notes []string, err error)
}

// burstVolume is the run's volume, where that is a burst buffer.
type burstVolume struct {
	config  plan.Config
	plan    *plan.Plan
	journal *journal.Journal
	end     *ending
	node    Node
	volumes *volumes
	mounted Burst // nil: it is not
}

// mount mounts the run's volume, where that is a burst buffer, with what was staged. Then
// VolumeDir is empty, and gets the outputs in the end.
func (v *burstVolume) mount(ctx context.Context) error {
	if v.plan.Burst == nil {
		return nil
	}
	if v.config.Size > 1 {
		return &core.Error{Kind: core.Unsupported, Op: "mount the volume of", Object: v.plan.Burst.Remote, Err: fmt.Errorf("a burst buffer is for one host, and there are %d", v.config.Size)}
	}
	b, err := v.node.MountBurst(ctx, *v.plan.Burst)
	if err != nil {
		return err
	}
	v.mounted = b
	v.journal.Say(core.PhaseStart, fmt.Sprintf("the volume is a burst buffer on this host's disk, and drained to %s", v.plan.Burst.Remote))
	return fill(ctx, plan.VolumeDir(v.config.Host.Dir), b.Dir())
}

// fill moves what was staged into a volume, in the place of files of the same names. What else is in
// the volume stays.
func fill(ctx context.Context, staged, volume string) error {
	from, err := fsutil.OpenRoot(staged)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := fsutil.OpenRoot(volume)
	if err != nil {
		return err
	}
	defer to.Close()
	err = from.Walk(".", func(name string, info fs.FileInfo, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case info.IsDir():
			return to.MkdirAll(name, info.Mode().Perm())
		}
		if err := to.Unlink(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		switch {
		case info.Mode().IsRegular():
			return fillFile(from, to, name, info)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := from.Readlink(name)
			if err != nil {
				return err
			}
			return to.Symlink(target, name)
		}
		return nil
	})
	if err != nil {
		return peercall.FailedOn("this host", "copy inputs into the volume of", err)
	}
	names, err := from.ReadDir(".")
	for _, name := range names {
		err = errors.Join(err, from.RemoveAll(name))
	}
	return err
}

func fillFile(from, to *fsutil.Root, name string, info fs.FileInfo) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.Create(name, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return to.SetTime(name, info.ModTime())
}

// dir is the directory of this host that containers have as the run's volume.
func (v *burstVolume) dir() string {
	if v.mounted != nil {
		return v.mounted.Dir()
	}
	return plan.VolumeDir(v.config.Host.Dir)
}

// unmount copies what patterns match from the burst buffer to VolumeDir, unmounts it, and waits until
// it is drained: as long as nobody asks the attempt to end, and then for its grace.
func (v *burstVolume) unmount(globs []string) error {
	if v.mounted == nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer context.AfterFunc(v.end.over, func() {
		time.AfterFunc(v.plan.Grace, func() { cancel(context.Cause(v.end.over)) })
	})()
	cerr := v.takeOutputs(ctx, globs)
	v.journal.Say(core.PhaseRun, "draining the volume to "+v.plan.Burst.Remote)
	notes, err := v.mounted.End(ctx)
	for _, note := range notes {
		v.journal.Remark(core.PhaseRun, note)
	}
	v.mounted = nil
	return errors.Join(err, cerr)
}

func (v *burstVolume) takeOutputs(ctx context.Context, globs []string) error {
	volume := v.mounted.Dir()
	tree, err := v.volumes.trees().Open(volume)
	if err != nil {
		return err
	}
	defer tree.Close()
	parts, err := snapshot.Parts(tree, globs)
	if err != nil {
		return err
	}
	if len(parts) == 1 && parts[0] == snapshot.Whole {
		if parts, err = tree.ReadDir("."); err != nil {
			return err
		}
	}
	return treesync.CopyMany(ctx, volume, parts, plan.VolumeDir(v.config.Host.Dir))
}
