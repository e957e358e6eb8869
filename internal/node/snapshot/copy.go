package snapshot

import (
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Copy copies what patterns match in the volume to the same places below a new directory.
func (t Trees) Copy(ctx context.Context, volume string, globs []string, to string) error {
	tree, err := t.Open(volume)
	if err != nil {
		return err
	}
	defer tree.Close()
	parts, err := Parts(tree, globs)
	if err = errors.Join(err, fsutil.RemoveAll(to), fsutil.MkdirAll(to, 0o700)); err != nil {
		return err
	}
	if slices.Contains(parts, Whole) {
		return treesync.Copy(ctx, volume, to, nil)
	}
	return treesync.CopyMany(ctx, volume, parts, to)
}

// Replace moves the files of a checkpoint into a copy of the volume, in place of the matches
// of the patterns there.
func (t Trees) Replace(globs []string, parts, fresh string) error {
	into, err := t.Open(fresh)
	if err != nil {
		return err
	}
	defer into.Close()
	from, err := t.Open(parts)
	if err != nil {
		return err
	}
	defer from.Close()
	since, err := Parts(into, globs)
	if err != nil {
		return err
	}
	for _, name := range since {
		if err := into.RemoveAll(name); err != nil {
			return err
		}
	}
	return layOver(from, into, ".")
}
