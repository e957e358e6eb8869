package gc

import (
	"context"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// RetryRelease is the least time between two tries to clean up a site.
const RetryRelease = time.Minute

// Orphans gives the runs that need a controller and have none: those that are
// not over, and those that still hold something on a site. A run that waits for its secrets
// is left out where this process cannot read them.
func (c *Collector) Orphans(ctx context.Context) ([]string, error) {
	runs, err := c.needy(ctx)
	runs = slices.DeleteFunc(runs, func(id string) bool { return c.State.Locks().Controlled(id) || c.Waits(ctx, id) })
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	still, err := c.needy(ctx) // a controller that had one a moment ago may have brought it to its end since
	return slices.DeleteFunc(runs, func(id string) bool { return !slices.Contains(still, id) }), err
}

// needy gives the runs that need a controller.
func (c *Collector) needy(ctx context.Context) ([]string, error) {
	runs, err := c.State.Unfinished(ctx)
	if err != nil {
		return nil, err
	}
	held, err := c.State.Unreleased(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range held {
		if a.Unreadable != nil { // when it was tried is not known, and `bee rm` does it
			continue
		}
		tried := time.Since(a.ReleaseTried).Abs() // a clock that was put back must not put it off for long
		if slices.Contains(runs, a.Run) || tried <= RetryRelease {
			continue
		}
		run, err := c.State.Run(ctx, a.Run)
		if err != nil && !core.IsKind(err, core.NotFound) {
			return nil, err
		}
		if run.Suspended != state.ReasonTicket && !(run.State.Final() && c.Lends(ctx, run, a)) {
			runs = append(runs, a.Run)
		}
	}
	return runs, nil
}
