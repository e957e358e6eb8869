package outputs

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/bee-hpc/bee/internal/control/confine"
)

// arriving is the name of an output on its way to a place that is taken already.
func arriving(run, name string) string { return ".bee-arriving-" + run + "-" + name }

// picked is the name of a directory from which some files are picked.
func picked(run string) string { return ".bee-fetch-" + run }

// ClearArrivals removes the partial outputs of a run in a directory, which gets no more of
// them. Another run may have the same `to:`. The caller has the run's lock.
func ClearArrivals(within confine.Dir, run, to string) error {
	root, err := within.Open(to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := root.ReadDir(".")
	for _, name := range names {
		if strings.Contains(name, arriving(run, "")) || name == picked(run) {
			err = errors.Join(err, root.RemoveAll(name))
		}
	}
	return err
}
