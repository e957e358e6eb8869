package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// lock takes a lock by name: exclusive to make or remove a thing, shared to
// use it. It is released by closing the file, or with the process.
func (d directory) lock(ctx context.Context, name string, how int) (*os.File, error) {
	return lockFile(ctx, d.path("locks", name), how)
}

// lockToMake is an exclusive lock on what is about to be made. Where another process has it,
// that is reported: it may take long. Who uses the thing has a shared lock for as long as a
// run lasts, so that the wait also ends once made reports that it is there: without a lock then.
func (d directory) lockToMake(ctx context.Context, name string, o PullOptions, made func() bool) (*os.File, error) {
	f, err := d.tryLock(name)
	if f != nil || err != nil {
		return f, err
	}
	o.filled().Progress("another bee is at this image; waiting for it", 0, 0)
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	there := make(chan bool, 1)
	go func() {
		pause := fsutil.Backoff{First: 10 * time.Millisecond, Longest: time.Second}
		for pause.Wait(waiting) == nil {
			if made() {
				there <- true
				stop()
			}
		}
	}()
	f, err = d.lock(waiting, name, unix.LOCK_EX)
	if err != nil && ctx.Err() == nil && len(there) > 0 {
		return nil, nil
	}
	return f, err
}

// tryLock is an exclusive lock, or nil where another process has one.
func (d directory) tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(d.path("locks", name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX); err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, err
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
