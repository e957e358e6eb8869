package transfer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"golang.org/x/sys/unix"
)

// Nothing that a site sends fills a file system of the submitting machine. Of the space and
// of the number of files that were free when a transfer began, a tenth is kept, or as much
// as this.
const (
	spareBytes = 1 << 30
	spareFiles = 10000
)

// How much arrives, and how much time passes, between two looks at what is free.
const (
	spaceEach  = 8 << 20
	spacePause = time.Second
)

// free is what a file system has left for its user.
type free struct {
	bytes, files uint64
	counts       bool // whether the number of files is limited
}

func freeAt(dir string) (free, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return free{}, err
	}
	return free{st.Bavail * uint64(st.Bsize), st.Ffree, st.Files > 0}, nil
}

// scarce reports whether no more may come, where f was free at the beginning.
func (f free) scarce(now free) bool {
	return now.bytes < min(spareBytes, f.bytes/10) || f.counts && now.files < min(spareFiles, f.files/10)
}

// ErrScarce is the cause where a transfer was ended for the space that it took.
var ErrScarce = errors.New("too little space would be left")

// WithinSpace does a transfer, and ends it where too little space is left.
func WithinSpace(ctx context.Context, t driver.Transfer, bring func(context.Context, driver.Transfer) error) error {
	dir := filepath.Dir(t.Local)
	begun, err := freeAt(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	look := func() {
		if now, err := freeAt(dir); err == nil && begun.scarce(now) {
			cancel(&core.Error{
				Kind: core.Transient, Op: "receive", Object: t.Local, Err: fmt.Errorf("%w in %s", ErrScarce, dir),
				Remedy: "Free some space there, or find out why the job has left so much.",
			})
		}
	}
	progress, seen := t.Progress, int64(0)
	t.Progress = func(done int64) {
		if done-seen >= spaceEach || done < seen { // it begins again where the connection broke
			seen = done
			look()
		}
		if progress != nil {
			progress(done)
		}
	}
	go func() {
		for core.Sleep(ctx, spacePause) == nil {
			look()
		}
	}()
	if err := bring(ctx, t); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrScarce) {
			return cause
		}
		return err
	}
	return nil
}
