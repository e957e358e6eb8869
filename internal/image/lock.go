package image

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flock waits for a lock.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

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
		if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK) {
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
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Another process makes it: wait, but not beyond our own end.
	got := make(chan error, 1)
	go func() { got <- flock(f, how) }()
	select {
	case err := <-got:
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return f, nil
	case <-ctx.Done():
		go func() {
			<-got //nolint:errcheck // we do not want it any more
			f.Close()
		}()
		return nil, context.Cause(ctx)
	}
}
