// Package fsutil holds what several rooms need of file systems: the one lock, the one
// atomic write, the one backoff, an existence test with three answers, temporary
// directories, and Root for trees that others fill.
//
// A tree that a job, a site, a store or another user has filled may hold anything: links
// that lead out, FIFOs that never answer, files without end. Root is the one way to touch
// such a tree. Functions with a path are for paths that the user or BEE itself chose.
//
// The package knows nothing of runs, sites or connections.
package fsutil

import (
	"errors"
	"io/fs"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Exists reports whether there is something at path, a dangling link included. With an
// error the answer is unknown: the file system did not say, and has to be asked again.
// Absence must never be concluded from an error.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	return existence(path, err)
}

// existence turns the error of an lstat into one of three answers.
func existence(path string, err error) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return false, nil
	}
	return false, &core.Error{
		Kind: core.Transient, Op: "look for", Object: path, Err: err,
		Remedy: "Check that the file system answers and that its directories can be searched.",
	}
}
