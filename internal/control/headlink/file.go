package headlink

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Bounds of the small files that a head leaves, in bytes. A result of thousands of hosts
// is a long one.
const (
	maxResult  = 64 << 20
	maxJournal = 256 << 20
	maxNodeLog = 256 << 20
	maxLine    = maxResult + 1<<20 // of a journal
)

// FetchFile fetches a plain file of at most limit bytes, 0: any number. Nothing else
// stays at t.Local, which others read.
func FetchFile(ctx context.Context, l driver.Lease, t driver.Transfer, limit int64) error {
	tooLarge := fmt.Errorf("fetch %s: %w: more than %d bytes", t.Remote, fsutil.ErrTooLarge, limit)
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.Progress = func(done int64) {
		if limit > 0 && done > limit {
			cancel(tooLarge)
		}
	}
	err := transfer.WithinSpace(bounded, t, l.Fetch)
	if ctx.Err() == nil && bounded.Err() != nil {
		return InvalidReport{tooLarge}
	}
	if err != nil {
		return err
	}
	root, err := fsutil.OpenRoot(filepath.Dir(t.Local))
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(filepath.Base(t.Local))
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		err = InvalidReport{fmt.Errorf("fetch %s: it is no plain file (%s)", t.Remote, info.Mode().Type())}
	case limit > 0 && info.Size() > limit:
		err = InvalidReport{tooLarge}
	default:
		return nil
	}
	return errors.Join(err, fsutil.RemoveAll(t.Local))
}
