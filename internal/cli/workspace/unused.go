package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
)

// Unused refuses a directory to write to in which, or in whose place, something is.
func Unused(op, dir string) error {
	refuse := func(why string) error {
		return &core.Error{Kind: core.Invalid, Op: op, Object: dir, Err: errors.New(why), Remedy: "Name a directory that is not there yet, or is empty."}
	}
	entries, err := os.ReadDir(dir)
	switch {
	case len(entries) > 0:
		return refuse("it is not empty")
	case errors.Is(err, syscall.ENOTDIR):
		return refuse("it is no directory")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}
