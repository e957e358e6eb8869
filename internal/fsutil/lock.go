package fsutil

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Lock is a lock on a file. The kernel releases it when the process ends.
type Lock struct{ f *os.File }

// LockFile locks a file for this process alone, and makes the file if it is missing. It
// waits for other holders until ctx ends; the error is then the cause of ctx. On some
// file systems a lock keeps out processes of the same machine only: see FileSystem.Locks.
func LockFile(ctx context.Context, path string) (*Lock, error) {
	for {
		l, err := TryLock(path)
		if !core.IsKind(err, core.Busy) {
			return l, err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		got := make(chan error, 1)
		go func() { got <- flock(f, unix.LOCK_EX) }()
		select {
		case err = <-got:
		case <-ctx.Done():
			go func() {
				core.BestEffort(<-got) // the lock is not wanted any more
				f.Close()
			}()
			return nil, context.Cause(ctx)
		}
		if err == nil && isAt(f, path) {
			return &Lock{f}, nil
		}
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// TryLock is LockFile without waiting: a Busy error where another process has the lock.
func TryLock(path string) (*Lock, error) { return tryLock(path, unix.LOCK_EX) }

// Momentary is how long a lock may look busy that is free: a process that is being started has the descriptors of its
// parent until it executes its program, and so locks that the parent has released meanwhile.
const Momentary = 200 * time.Millisecond

// TryLockFor is TryLock that waits up to a time.
func TryLockFor(path string, most time.Duration) (*Lock, error) {
	end := time.Now().Add(most)
	pause := Backoff{First: time.Millisecond, Longest: 20 * time.Millisecond}
	for {
		l, err := TryLock(path)
		if !core.IsKind(err, core.Busy) || time.Now().After(end) {
			return l, err
		}
		time.Sleep(pause.Next())
	}
}

// TryLockShared is TryLock for one of several that do not disturb each other.
func TryLockShared(path string) (*Lock, error) { return tryLock(path, unix.LOCK_SH) }

// File is the locked file, for a note about the holder. It must not be closed.
func (l *Lock) File() *os.File { return l.f }

// Unlock releases the lock.
func (l *Lock) Unlock() error { return l.f.Close() }

func tryLock(path string, how int) (*Lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = flock(f, how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, &core.Error{
				Kind: core.Busy, Op: "lock", Object: path, Err: errors.New("another process has it locked"),
				Remedy: "Wait for the other process, or end it.",
			}
		case err != nil:
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case isAt(f, path):
			return &Lock{f}, nil
		}
		f.Close()
	}
}

func flock(f *os.File, how int) error { return flockFD(int(f.Fd()), how) }

// TryFlock locks an open file without waiting, as unix.LOCK_EX or unix.LOCK_SH: EWOULDBLOCK
// where another process has it. The lock lasts until the file is closed.
func TryFlock(fd, how int) error { return flockFD(fd, how|unix.LOCK_NB) }

// Flock is TryFlock, and waits for other holders until ctx ends. The error is then the cause
// of ctx. The kernel wakes who waits, so that a holder that takes it again is not always first.
func Flock(ctx context.Context, fd, how int) error {
	err := TryFlock(fd, how)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // the lock is that of both, and who gives up closes fd
	if err != nil {
		return err
	}
	got := make(chan error, 1)
	go func() {
		err := flockFD(own, how)
		unix.Close(own) // before the caller has the lock: else that outlives the caller's own descriptor
		got <- err
	}()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func flockFD(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isAt reports whether path still leads to f: another holder may have removed the file,
// and a lock on what has no name keeps nobody out.
func isAt(f *os.File, path string) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(have, there)
}
