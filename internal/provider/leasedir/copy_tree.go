package leasedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Look is driver.VolumeReuse.Look on this machine.
func Look(ctx context.Context, t driver.Transfer) (driver.Lent, error) {
	from, done, err := Source(t)
	if err != nil {
		return driver.Lent{}, err
	}
	defer done()
	info, err := os.Lstat(from)
	switch {
	case err != nil:
		return driver.Lent{}, &core.Error{Kind: missing(err), Op: "look for", Object: t.Remote, Err: err}
	case info.IsDir():
		return driver.Lent{Dir: true, Bytes: treesync.Size(ctx, from)}, nil
	case info.Mode().IsRegular():
		return driver.Lent{Bytes: info.Size()}, nil
	}
	return driver.Lent{}, &core.Error{Kind: core.Invalid, Op: "look for", Object: t.Remote, Err: errors.New("it is neither a file nor a directory"), Remedy: "Name one of these in `path:`."}
}

// CopyTree is driver.VolumeReuse.CopyTree on this machine. The copy is made beside its place,
// so that a call which is cut short leaves no part of a file there.
func CopyTree(ctx context.Context, t driver.Transfer, via, to string) error {
	from, done, err := Source(t)
	if err != nil {
		return err
	}
	defer done()
	err = errors.Join(os.MkdirAll(filepath.Dir(via), 0o700), os.MkdirAll(filepath.Dir(to), 0o700))
	if err == nil {
		err = treesync.Copy(ctx, from, via, nil)
	}
	if err == nil {
		err = put(ctx, via, to)
	}
	if err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "copy", Object: t.Remote, Err: err}
	}
	return fsutil.RemoveAll(via)
}

// put moves a tree to a path, or adds to what is there the files that it lacks.
func put(ctx context.Context, tree, to string) error {
	is, err := os.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return treesync.Move(tree, to)
	}
	if err != nil {
		return err
	}
	info, err := os.Lstat(tree)
	if err != nil || !is.IsDir() || !info.IsDir() { // another input has the place
		return err
	}
	source, err := fsutil.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := fsutil.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	return treesync.Add(ctx, source, target)
}
