package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// spareOnlyCopy refuses to forget a run that has something which exists nowhere else.
func (c *Controller) spareOnlyCopy(ctx context.Context, run state.Run, leaving Leaving) error {
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
func (c *Controller) onlyCopy(ctx context.Context, run state.Run, leaving Leaving) (string, error) {
	dir := c.Store.RunDir(run.ID)
	for path, what := range map[string]string{UnnamedVolume(dir): "its results, of which no output was there", unsavedVolume(dir): "what its job has left in its volume"} {
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
	list, err := c.local(c.checkpoints(run.ID)).List(ctx)
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		return fmt.Sprintf("%d checkpoints: %s", len(list), c.checkpoints(run.ID)), nil
	}
	sub, err := SubmissionOf(run)
	if err != nil || sub.Job.Store == "" || leaving.Store { // a record that nobody can read names no store
		return "", nil //nolint:nilerr // as above
	}
	d := &drive{c: c, sub: sub, run: run}
	defer d.closeStore()
	if list, _ = d.all(ctx); len(list) > 0 { // a store that another has, or that does not answer, is the removal's to report
		return fmt.Sprintf("%d checkpoints in the store %s", len(list), sub.Job.Store), nil
	}
	return "", nil
}

// hasFiles reports whether a directory is there and holds anything.
func hasFiles(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}
