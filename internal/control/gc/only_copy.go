package gc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// spareOnlyCopy refuses to forget a run that has something which exists nowhere else.
func (c *Collector) spareOnlyCopy(ctx context.Context, run state.Run, leaving Leaving) error {
	what, err := c.onlyCopy(ctx, run, leaving)
	if err != nil || what == "" {
		return err
	}
	return &core.Error{
		Kind: core.Busy, Op: "remove run", Object: run.ID, Err: fmt.Errorf("it has the only copy of %s", what),
		Remedy: "The run is kept. Copy what you need, then `bee rm --force " + run.ID + "` removes it.",
	}
}

// onlyCopy names what would be lost with a run, or returns "".
func (c *Collector) onlyCopy(ctx context.Context, run state.Run, leaving Leaving) (string, error) {
	dir := c.State.RunDir(run.ID)
	for path, what := range map[string]string{retention.UnnamedVolume(dir): "its results, of which no output was there", retention.UnsavedVolume(dir): "what its job has left in its volume"} {
		is, err := hasFiles(path)
		if err != nil {
			return "", err
		}
		if is {
			return what + ": " + path, nil
		}
	}
	if run.State == state.Succeeded {
		return "", nil
	}
	list, err := c.Kept.OpenDir(c.Kept.Dir(run.ID)).List(ctx)
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		return fmt.Sprintf("%d checkpoints: %s", len(list), c.Kept.Dir(run.ID)), nil
	}
	store, name := c.StoreOf(run)
	if store == "" || leaving.Store {
		return "", nil
	}
	kept := c.Kept.Of(&run, store, name)
	defer kept.Close()
	if list, _ = kept.All(ctx); len(list) > 0 { // the removal reports a store of another installation, or one that does not answer
		return fmt.Sprintf("%d checkpoints in the store %s", len(list), store), nil
	}
	return "", nil
}

// hasFiles reports whether a directory is there and holds anything.
func hasFiles(dir string) (bool, error) {
	root, err := fsutil.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	names, err := root.ReadDir(".")
	return len(names) > 0, err
}
