// Package leasedir keeps leases as directories: one for each, whose name tells
// the owner, locked while it is made or removed, and with proof of the run
// directory that belongs to it. So everything is found again from the file
// system alone, whatever process was killed.
package leasedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Name is the directory name that tells an owner.
func Name(o core.Owner) string {
	return url.QueryEscape(o.User) + "@" + url.QueryEscape(o.Run) + "@" + strconv.Itoa(o.Attempt)
}

// OwnerNamed is the inverse of Name.
func OwnerNamed(name string) (core.Owner, bool) {
	f := strings.Split(name, "@")
	if len(f) != 3 {
		return core.Owner{}, false
	}
	user, err1 := url.QueryUnescape(f[0])
	run, err2 := url.QueryUnescape(f[1])
	attempt, err3 := strconv.Atoi(f[2])
	if err1 != nil || err2 != nil || err3 != nil {
		return core.Owner{}, false
	}
	return core.Owner{User: user, Run: run, Attempt: attempt}, true
}

// RunDir is the run's own directory in base.
func RunDir(base, run string) string { return filepath.Join(base, url.QueryEscape(run)) }

// Own makes sure that dir is a directory which only we can write to.
func Own(dir string) error {
	for range 2 {
		var st unix.Stat_t
		err := unix.Lstat(dir, &st)
		if errors.Is(err, unix.ENOENT) {
			// MkdirAll, not Mkdir: two processes may make it at once.
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return Unusable(dir, err)
			}
			continue
		}
		switch {
		case err != nil:
			return Unusable(dir, err)
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return Unusable(dir, errors.New("it is not a directory"))
		case int(st.Uid) != os.Geteuid():
			return Unusable(dir, fmt.Errorf("it belongs to user %d", st.Uid))
		case st.Mode&0o022 != 0:
			return Unusable(dir, errors.New("others can write to it"))
		}
		return nil
	}
	return Unusable(dir, unix.ENOENT)
}

// Unusable says that a scratch directory cannot be used.
func Unusable(dir string, err error) error {
	return &core.Error{Op: "use scratch directory", Object: dir, Err: err, Remedy: "Set `scratch` at the site to a directory of your own."}
}

// Lock makes a lease's directory if create is set, and locks it until
// unlock is called. NotFound where there is none.
func Lock(ctx context.Context, dir string, create bool) (unlock func(), err error) {
	for {
		if create {
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
		}
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) && create {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &core.Error{Kind: core.NotFound, Op: "find lease", Object: dir, Err: err}
		}
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, f); err != nil {
			_ = f.Close()
			return nil, &core.Error{Kind: core.Busy, Op: "lock lease", Object: dir, Err: err}
		}
		// It may have been released while we waited.
		mine, err1 := f.Stat()
		now, err2 := os.Lstat(dir)
		if err1 == nil && err2 == nil && os.SameFile(mine, now) {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
	}
}

func flock(ctx context.Context, f *os.File) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
