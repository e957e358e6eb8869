// Package outputs collects what an attempt has left: outputs in directories of the user's, and
// at places elsewhere. What a site sends is never believed: no name of it leads out of the
// directory of its output, and no file of others is replaced. Package outputs knows leases
// and records of files, and nothing of an attempt's states.
package outputs

import (
	"context"

	"github.com/bee-hpc/bee/internal/control/confine"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Collector collects the outputs of one attempt.
type Collector struct {
	Run     state.Run
	User    string // whose run it is
	Dir     string // the run's on this machine
	Job     *spec.Job
	Within  confine.Dir
	InGuest bool // nobody wants the outputs that are not there
	Site    *transfer.Site
	// Attempt gets the outputs that were collected, and those that were not there.
	Attempt *state.Attempt
	Records Records
	Remote  Places
	// Owed reports whether an output of the job is missing where it is not there, by its index; nil:
	// each is that is not optional. Of cases that share the run's lease, those without success owe none.
	Owed func(ctx context.Context, output int) (bool, error)
	// Came are the outputs of the job of which something is here, by index.
	Came map[int]bool
}

// Records are those of the files that runs have written.
type Records interface {
	Written(ctx context.Context, name, path string) ([]state.Written, error)
	PutWritten(ctx context.Context, run state.Run, files []state.Written) error
}

// Places are those of outputs that are neither here nor on a site.
type Places interface {
	// Place opens one for a writer.
	Place(ctx context.Context, place string, by Writer) (Place, error)
}
