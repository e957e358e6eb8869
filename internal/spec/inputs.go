package spec

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// inputEntries is how much of a directory of inputs is looked at before a run.
const inputEntries = 20000

// errUnsized is the cause where a file has content, and its file system does not say how
// much, as those of /proc.
var errUnsized = errors.New("its file system does not report its size")

// inputHere finds what of an input, which is there, cannot be read.
func (t *Draft) inputHere(at, name string) {
	entries := 0
	core.BestEffort(inputTree(name, func(r *fsutil.Root, below string, info fs.FileInfo, err error) error { // each is reported
		if entries++; entries > inputEntries {
			return fs.SkipAll
		}
		if err == nil {
			err = readable(r, below, info)
		}
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, errUnsized):
			t.report.at(at, "copy it to a file, and name that", "%s: %s: %v", at, r.Path(below), err)
		default:
			t.report.at(at, "", "%s: %v", at, err)
		}
		return fs.SkipAll
	}))
}

// inputTree visits what an input means, and all below it, over no link but its own.
func inputTree(name string, visit func(r *fsutil.Root, below string, info fs.FileInfo, err error) error) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	r, err := fsutil.OpenRoot(filepath.Dir(real))
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Walk(filepath.Base(real), func(below string, info fs.FileInfo, err error) error { return visit(r, below, info, err) })
}

func readable(r *fsutil.Root, name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		if err := unix.Access(r.Path(name), unix.R_OK|unix.X_OK); err != nil {
			return &fs.PathError{Op: "open", Path: r.Path(name), Err: err}
		}
		return nil
	case !info.Mode().IsRegular():
		return nil
	}
	if info.Size() > 0 {
		if err := unix.Access(r.Path(name), unix.R_OK); err != nil {
			return &fs.PathError{Op: "open", Path: r.Path(name), Err: err}
		}
		return nil
	}
	f, err := r.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := f.Read(make([]byte, 1)); n > 0 {
		return errUnsized
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
