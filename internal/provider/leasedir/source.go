package leasedir

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/treesync"
	"golang.org/x/sys/unix"
)

// Source is the path from which this process reads the remote end of a transfer, until
// done is called: of one within a directory, below the descriptor of that. What a job has
// forbidden the directory's owner to read is made readable.
func Source(t driver.Transfer) (from string, done func(), err error) {
	if t.Within == "" {
		return t.Remote, func() {}, nil
	}
	fail := func(kind core.Kind, err error) (string, func(), error) {
		return "", nil, &core.Error{Kind: kind, Op: "fetch", Object: t.Remote, Err: err}
	}
	name, err := filepath.Rel(t.Within, t.Remote)
	if err != nil || !filepath.IsLocal(name) {
		return fail(core.Invalid, fsutil.ErrOutside)
	}
	in, err := fsutil.OpenRoot(t.Within)
	if err != nil {
		return fail(missing(err), err)
	}
	defer in.Close()
	in.Seen = t.Seen
	target, over, err := in.Trace(name)
	switch {
	case err != nil && (len(over) > 0 || errors.Is(err, fsutil.ErrOutside)):
		return fail(core.Invalid, err)
	case err != nil:
		return fail(missing(err), err)
	}
	treesync.MakeReadable(in, target)
	if target == "." {
		return t.Within, func() {}, nil
	}
	up, err := in.Sub(filepath.Dir(target))
	if err != nil {
		return fail(missing(err), err)
	}
	return filepath.Join(up.Pinned(), filepath.Base(target)), func() { up.Close() }, nil
}

func missing(err error) core.Kind {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return core.NotFound
	}
	return core.KindOf(err)
}
