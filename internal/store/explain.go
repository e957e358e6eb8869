package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Absolute returns the absolute name of a directory. A relative one starts at the home
// directory.
func Absolute(dir string) (string, error) {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, dir), err
}

// Explain adds a kind and a remedy to an error of a store's directory.
func Explain(dir string, err error) error {
	kind, remedy := core.KindOf(err), core.Remedy(err)
	switch {
	case err == nil || kind == core.Stopped || errors.Is(err, driver.ErrDamaged):
		return err
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		remedy = "Do you own it, and may you write there?"
	case fsutil.IsFull(err):
		remedy = "Free some space there, or ask for a larger quota."
	case kind != core.NotFound && errors.Is(err, fs.ErrNotExist):
		// It is not made: it may be on a file system that is not mounted.
		kind, remedy = core.Transient, "Make it, or mount the file system that it lies on."
		if _, serr := os.Stat(dir); serr != nil { // what was to be made in it is no matter
			err = unix.ENOENT
		}
	case errors.Is(err, unix.ESTALE), errors.Is(err, unix.EIO), errors.Is(err, unix.ENOTCONN), errors.Is(err, unix.EHOSTDOWN), errors.Is(err, unix.ETIMEDOUT):
		kind, remedy = core.Transient, "Does its file system answer?"
	}
	return &core.Error{Kind: kind, Op: "use the directory", Object: dir, Err: err, Remedy: remedy}
}
