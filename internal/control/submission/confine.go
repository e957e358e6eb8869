package submission

import (
	"github.com/bee-hpc/bee/internal/control/confine"
	"github.com/bee-hpc/bee/internal/spec"
)

// Confine keeps a job that another user may have written in a directory.
func (s *Submission) Confine(dir string, reaches []spec.Reach) error {
	within, err := confine.To(dir, reaches)
	if err != nil {
		return err
	}
	if within != "" {
		s.Within = string(within)
	}
	return nil
}

// Confined is the directory to which the job is confined.
func (s *Submission) Confined() confine.Dir { return confine.Dir(s.Within) }
