package candidate

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
)

// OccupiedError is the cause of a site without a queue whose hosts are in use by other runs of this
// user: that passes, and says nothing against the site, nor against the run.
type OccupiedError struct{ error }

// Unwrap returns the cause.
func (e OccupiedError) Unwrap() error { return e.error }

// Occupied returns an error where a site without a queue has no room for the run now, which a job of an owner asks for.
func (s *Site) Occupied(ctx context.Context, o core.Owner) error {
	q := s.Provider.Queue()
	if q == nil || s.Provider.Info().Unattended { // the run waits in the site's own queue
		return nil
	}
	w, err := q.Forecast(ctx, s.Request(o))
	if err != nil || w.Reason == "" || !w.Expected.IsZero() {
		return err
	}
	return &core.Error{
		Kind: core.Busy, Op: "use site", Object: s.Spec.Name, Err: OccupiedError{errors.New(w.Reason)},
		Remedy: "It starts when they are over; `oversubscribe: true` at the site has it start at once.",
	}
}
