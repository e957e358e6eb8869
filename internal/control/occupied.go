package control

import (
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
)

// occupiedError is the cause of a site without a queue whose hosts are in use by other runs of this
// user: that passes, and says nothing against the site, nor against the run.
type occupiedError struct{ error }

func (e occupiedError) Unwrap() error { return e.error }

// occupied returns an error where a site without a queue has no room for the run now.
func (a *attempt) occupied(ctx context.Context) error {
	q := a.provider.Queue()
	if q == nil || a.provider.Info().Unattended { // the run waits in the site's own queue
		return nil
	}
	w, err := q.Forecast(ctx, a.request(core.Owner{User: a.c.Store.User(), Run: a.run.ID, Attempt: 1}))
	if err != nil || w.Reason == "" || !w.Expected.IsZero() {
		return err
	}
	return &core.Error{
		Kind: core.Busy, Op: "use site", Object: a.site.Name, Err: occupiedError{errors.New(w.Reason)},
		Remedy: "It starts when they are over; `oversubscribe: true` at the site has it start at once.",
	}
}

// waitsForRuns reports whether the run waits for other runs of its user at some site.
func waitsForRuns(none []passed) bool {
	return slices.ContainsFunc(none, func(p passed) bool { return errors.As(p.err, new(occupiedError)) })
}
