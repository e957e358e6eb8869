package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/store"
)

// Export writes the newest checkpoint that is whole, or that of an attempt (0: of any), into
// a new directory of this machine as plain files, whatever the store. damaged is called with
// the place of each newer one that cannot be used.
func (c *Checkpoints) Export(ctx context.Context, attempt int, dir string, damaged func(place string)) (Checkpoint, error) {
	const op = "export a checkpoint to"
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, &core.Error{
			Kind: core.Invalid, Op: op, Object: dir, Err: cmp.Or(err, fs.ErrExist),
			Remedy: "Name a directory that does not exist yet.",
		}
	}
	list, err := c.exportable(ctx, attempt)
	if err != nil {
		return Checkpoint{}, err
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".bee-partial-")
	if err != nil {
		return Checkpoint{}, &core.Error{Kind: core.Invalid, Op: op, Object: dir, Err: err, Remedy: "Name a directory in one that exists and that you may write to."}
	}
	defer fsutil.RemoveAll(part)
	for n, k := range slices.Backward(list) {
		tree := filepath.Join(part, fmt.Sprint(n))
		err := driver.ErrDamaged
		if !k.Broken {
			err = c.exportTo(ctx, k, tree)
		}
		switch {
		case errors.Is(err, driver.ErrDamaged):
			damaged(k.Place)
			continue
		case err == nil:
			err = fsutil.Rename(tree, dir)
		}
		if err != nil {
			return Checkpoint{}, &core.Error{Kind: core.KindOf(err), Op: op, Object: dir, Err: err, Remedy: core.Remedy(c.Explain(err))}
		}
		out := Describe(k)
		out.Path = dir
		return out, nil
	}
	return Checkpoint{}, &core.Error{
		Kind: core.NotFound, Op: op, Object: dir, Err: errors.New("no checkpoint " + c.Text() + " is whole"),
		Remedy: "`bee show " + c.run.ID + "` lists the checkpoints of the run.",
	}
}

// exportable lists the run's checkpoints, oldest first, also where another installation
// continues the run: reading them disturbs it in nothing.
func (c *Checkpoints) exportable(ctx context.Context, attempt int) ([]driver.Checkpoint, error) {
	place, err := c.Store()
	if err == nil && c.store != "" {
		if err = c.CheckHolder(ctx, place); errors.Is(err, ErrTaken) {
			err = nil
		}
	}
	var list []driver.Checkpoint
	if err == nil {
		list, err = place.List(ctx)
	}
	if err == nil {
		list, err = c.compared(ctx, list)
	}
	if err != nil {
		err = c.Explain(err)
		return nil, &core.Error{Kind: core.KindOf(err), Op: "list the checkpoints of run", Object: c.run.ID + " " + c.Text(), Err: err, Remedy: core.Remedy(err)}
	}
	of := "the run"
	if attempt != 0 {
		of = fmt.Sprintf("attempt %d", attempt)
		list = slices.DeleteFunc(list, func(k driver.Checkpoint) bool { return k.Attempt != attempt })
	}
	if len(list) == 0 {
		return nil, &core.Error{
			Kind: core.NotFound, Op: "export a checkpoint of run", Object: c.run.ID, Err: errors.New(of + " has none " + c.Text()),
			Remedy: "`bee show " + c.run.ID + "` lists the checkpoints of the run.",
		}
	}
	return list, nil
}

// exportTo makes a new directory to a copy of a checkpoint, on the disk.
func (c *Checkpoints) exportTo(ctx context.Context, k driver.Checkpoint, tree string) error {
	place, err := c.Store()
	if err == nil {
		err = os.Mkdir(tree, 0o700)
	}
	if err == nil {
		err = place.Restore(ctx, k, store.Tree(tree))
	}
	if err != nil {
		return err
	}
	if c.opened == nil || !c.opened.ChecksContent() {
		same, err := store.Matches(ctx, tree, k.Manifest)
		if err != nil {
			return err
		}
		if !same {
			return driver.ErrDamaged
		}
	}
	if err := withoutRights(tree); err != nil {
		return err
	}
	return fsutil.SyncTree(ctx, tree)
}

// withoutRights clears the bits by which the files of a job would run as this user for all who
// start them.
func withoutRights(tree string) error {
	root, err := fsutil.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			err = root.Chmod(name, info.Mode().Perm())
		}
		return err
	})
}
