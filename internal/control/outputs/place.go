package outputs

import (
	"context"
	"os"
)

// Place is a place of outputs that is neither here nor on a site.
type Place interface {
	// Send stores a file under a name, unless there is something that neither the writer has
	// stored last nor replace allows to replace: then the error wraps fs.ErrExist. What the
	// file holds is on the other machine's disk then.
	Send(ctx context.Context, name string, file *os.File, replace bool) error
}

// Writer is who stores outputs elsewhere.
type Writer struct {
	// Run is its id. Name is the same for all runs of one name of a user.
	Run, Name string
	// Uploads is a directory for notes of objects that are not stored whole yet.
	Uploads string
}
