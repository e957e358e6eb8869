// Package confine keeps a job that another user may have written within a directory. It was
// within that when it was checked, but its author may replace a directory by a link later.
// The package knows paths and builds, and nothing of runs.
package confine

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
)

// Dir is a directory that a job may not leave, without links; "": it may use any path.
type Dir string

// To returns the directory to which a job is confined. reaches lists what the job uses
// outside of it: with any, the job is not confined.
func To(dir string, reaches []spec.Reach) (Dir, error) {
	if len(reaches) > 0 {
		return "", nil
	}
	real, err := filepath.EvalSymlinks(dir)
	return Dir(real), err
}

// Check refuses a path that leads out of the directory.
func (d Dir) Check(path string) error {
	if d == "" || spec.Inside(string(d), path) {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "use", Object: path, Err: fmt.Errorf("it leads out of %s, which it did not when the run was submitted", d),
		Remedy: changedRemedy,
	}
}

// changedRemedy is for a place that was within the directory of its job when the run was
// submitted.
const changedRemedy = "It was changed since then. Check which users may write there."

// CheckBuild refuses a build outside of the directory.
func (d Dir) CheckBuild(job *spec.Job) error {
	if d == "" {
		return nil
	}
	reaches := job.Build.Reaches(string(d))
	if len(reaches) == 0 {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "build the image of", Object: job.Name, Err: fmt.Errorf("it leaves %s, which it did not when the run was submitted: %s", d, reaches[0]),
		Remedy: changedRemedy,
	}
}

// Open opens a directory, which stays the one that was checked.
func (d Dir) Open(dir string) (*fsutil.Root, error) {
	root, err := fsutil.OpenRoot(dir)
	if err != nil || d == "" {
		return root, err
	}
	real, err := root.Real()
	if err == nil {
		err = d.Check(real)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// Pin returns the path from which this process reads a file or directory until done is
// called: below the descriptor of its directory, which is checked by that. No link leads to
// the file when its path is given.
func (d Dir) Pin(file string) (path string, done func(), err error) {
	if d == "" || file == string(d) {
		return file, func() {}, nil
	}
	dir, err := d.Open(filepath.Dir(file))
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir.Pinned(), filepath.Base(file)), func() { dir.Close() }, nil
}
