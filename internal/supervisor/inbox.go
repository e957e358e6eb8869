package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// How often it is looked whether runs were taken, at first and later: many processes that
// wait must not take a busy supervisor's processors.
const (
	firstLook   = 20 * time.Millisecond
	longestLook = time.Second
)

// Leave leaves the names of runs in an inbox, where the supervisor finds them.
func Leave(inbox string, ids []string) error {
	if err := os.MkdirAll(inbox, 0o700); err != nil {
		return fmt.Errorf("leave runs for the supervisor: %w", err)
	}
	for _, id := range ids {
		err := os.WriteFile(filepath.Join(inbox, id), nil, 0o600)
		if errors.Is(err, fs.ErrNotExist) { // a supervisor that has just ended removed the directory
			err = errors.Join(os.MkdirAll(inbox, 0o700), os.WriteFile(filepath.Join(inbox, id), nil, 0o600))
		}
		if err != nil {
			return fmt.Errorf("leave run %s for the supervisor: %w", id, err)
		}
	}
	return nil
}

// IsLeft reports whether a run was left for a supervisor that runs.
func IsLeft(store *state.Store, id string) bool {
	return slices.ContainsFunc(store.Supervisors().Running(), func(inbox string) bool {
		_, err := os.Lstat(filepath.Join(inbox, id))
		return err == nil
	})
}

// waiting returns the names in an inbox.
func waiting(inbox string) ([]string, error) {
	entries, err := os.ReadDir(inbox)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Name() != state.SupervisorLock {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// ServeOrLeave waits until the supervisor with a key has taken runs whose names were left
// for it. Where there is none, it calls serve, which is to be one with that inbox. The
// runs' own locks ensure that each has one controller, whatever happens here.
func ServeOrLeave(ctx context.Context, store *state.Store, key string, ids []string, serve func(ctx context.Context, inbox string) error) error {
	inbox := store.Supervisors().Dir(key)
	look := fsutil.Backoff{First: firstLook, Longest: longestLook}
	for {
		lock, err := store.Supervisors().Lock(key)
		switch {
		case core.IsKind(err, core.Busy):
			if names, err := waiting(inbox); err != nil || !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(names, id) }) {
				return err
			}
			if err := look.Wait(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		err = serve(ctx, inbox)
		lock.Unlock()
		// A process that left a name just now waits for the lock, and may have ended
		// since: so the inbox is read once more.
		if names, nerr := waiting(inbox); err != nil || nerr != nil || len(names) == 0 {
			// Should another take the lock of a file that has no name any more,
			// there are two supervisors: the runs' locks keep them apart. A
			// directory with a name in it stays.
			fsutil.TryRemove(filepath.Join(inbox, state.SupervisorLock)) // it does no harm
			fsutil.TryRemove(inbox)
			return errors.Join(err, nerr)
		}
	}
}
