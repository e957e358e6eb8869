package image

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// lock takes a lock by name: exclusive to make or remove a thing, shared to
// use it. It is released by closing the file, or with the process.
func (d directory) lock(ctx context.Context, name string, how int) (*os.File, error) {
	return lockFile(ctx, d.path("locks", name), how)
}

// lockToMake is an exclusive lock on what is about to be made. Where another
// process has it, that is reported: it may take long.
func (d directory) lockToMake(ctx context.Context, name string, o PullOptions) (*os.File, error) {
	o = o.filled()
	if f, err := os.Open(d.path("locks", name)); err == nil {
		if errors.Is(fsutil.TryFlock(int(f.Fd()), unix.LOCK_SH), unix.EWOULDBLOCK) {
			o.Progress("another bee is at this image; waiting for it", 0, 0)
		}
		f.Close()
	}
	return d.lock(ctx, name, unix.LOCK_EX)
}

func lockFile(ctx context.Context, path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := fsutil.Flock(ctx, int(f.Fd()), how); err != nil {
		f.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
