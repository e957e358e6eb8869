package control

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
)

// Confine keeps a job that another user may have written in a directory, where it left
// that in no way when it was looked at: its author may replace a directory by a link later.
func (s *Submission) Confine(dir string, reaches []spec.Reach) error {
	if len(reaches) > 0 {
		return nil
	}
	real, err := filepath.EvalSymlinks(dir)
	s.Within = real
	return err
}

// stays refuses a path that leads out of the directory to which the job is confined.
func (s *Submission) stays(path string) error {
	if s.Within == "" || spec.Inside(s.Within, path) {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "use", Object: path, Err: fmt.Errorf("it leads out of %s, which it did not when the run was submitted", s.Within),
		Remedy: changedRemedy,
	}
}

// changedRemedy is for a place that was within the directory of its job when the run was
// submitted.
const changedRemedy = "It was changed since then. Check which users may write there."

// staysBuild refuses a build outside of the directory to which the job is confined.
func (s *Submission) staysBuild(job *spec.Job) error {
	if s.Within == "" {
		return nil
	}
	reaches := job.Build.Reaches(s.Within)
	if len(reaches) == 0 {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "build the image of", Object: job.Name, Err: fmt.Errorf("it leaves %s, which it did not when the run was submitted: %s", s.Within, reaches[0]),
		Remedy: changedRemedy,
	}
}

// openTo opens a directory to which outputs come, which stays the one that was checked.
func (s *Submission) openTo(to string) (*fsutil.Root, error) {
	root, err := fsutil.OpenRoot(to)
	if err != nil || s.Within == "" {
		return root, err
	}
	real, err := root.Real()
	if err == nil {
		err = s.stays(real)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// pinned is the path from which this process reads an input until done is called: of a
// confined job, and where a link led there, below the descriptor of its directory, which is
// checked by that. No link leads to the input when its path is given.
func (s *Submission) pinned(c staging) (path string, done func(), err error) {
	input := c.local
	if c.within != "" {
		s = &Submission{Within: c.within}
	}
	if s.Within == "" || input == s.Within {
		return input, func() {}, nil
	}
	dir, err := s.openTo(filepath.Dir(input))
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir.Pinned(), filepath.Base(input)), func() { dir.Close() }, nil
}
