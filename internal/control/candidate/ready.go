package candidate

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Ready asks a site for the hosts that were requested there. They are gone only where the
// site reports so. Any other error is Transient, as it leaves open what became of them: a
// name that does not resolve, a login that has expired, unknown output of a batch system.
func Ready(ctx context.Context, q driver.LeaseQueue) (driver.Waiting, error) {
	w, err := q.Ready(ctx)
	if w.Missed && err != nil {
		return w, MissedError{err}
	}
	if err == nil || ctx.Err() != nil || core.IsKind(err, core.Lost) || core.IsKind(err, core.NotFound) {
		return w, err
	}
	return w, &core.Error{Kind: core.Transient, Err: err}
}

// MissedError is that of hosts which were there, and were released as no controller came
// to use them: that says nothing against the site, nor against the run.
type MissedError struct{ Err error }

func (e MissedError) Error() string { return e.Err.Error() }

func (e MissedError) Unwrap() error { return e.Err }

// Missed reports whether an error is of that kind.
func Missed(err error) bool { return errors.As(err, new(MissedError)) }
