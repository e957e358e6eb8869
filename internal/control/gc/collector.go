package gc

import (
	"context"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Collector removes what is left of runs.
type Collector struct {
	State    *state.Store
	Provider func(spec.Site) (driver.Provider, error)
	// Kept has the checkpoints of all runs.
	Kept retention.Places
	// StoreOf returns the store of a run, and the run's name there. "", "": the run has none,
	// or its submission cannot be read.
	StoreOf func(run state.Run) (store, name string)
	// SiteOf returns a site as a run was submitted with it; nil: the run has no such site, or cannot be read.
	SiteOf func(run state.Run, name string) *spec.Site
	// Needed returns a run that waits for the end of another one, or "".
	Needed func(ctx context.Context, run string) (string, error)
	// Lends reports whether the volume of an attempt, which is over, is kept for other runs.
	Lends func(ctx context.Context, run state.Run, at state.Attempt) bool
	// RemovePassed removes what was fetched of the volume of a run that is over, if no run needs it; with dry,
	// it only looks. found is whether there was such a thing.
	RemovePassed func(ctx context.Context, run state.Run, dry bool) (found bool, err error)
	// Release releases what a run that is over has left on its sites.
	Release func(ctx context.Context, run string) error
	// Waits reports whether a run waits for secrets that this process cannot read.
	Waits func(ctx context.Context, run string) bool
	// Uploads names the objects of a run of which parts alone are in a bucket, and
	// AbortUploads removes those parts.
	Uploads      func(run string) ([]string, error)
	AbortUploads func(ctx context.Context, run string) error
	// Report prints a message for the user.
	Report func(message string)
}
