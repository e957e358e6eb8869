package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/crashes"
	"github.com/bee-hpc/bee/internal/state"
)

// CrashedRuns finds the runs of a state directory that crash their supervisors.
type CrashedRuns struct {
	Store *state.Store
	Log   *slog.Logger
	// SetAside records that a run has no further controllers, with the reason and the
	// runtime's text of the last crash.
	SetAside func(ctx context.Context, id, reason, text string) error
}

// marksOf returns the marks of the supervisors of a state directory.
func marksOf(store *state.Store) (crashes.Marks, error) {
	return crashes.In(filepath.Join(store.Dir(), "supervisors"))
}

// Count counts the crashes of supervisors for their runs. A run that was in several, and has
// crashed a supervisor of its own, is set aside. Errors are only logged, so that other runs
// do not wait for it.
func (c CrashedRuns) Count(ctx context.Context) {
	marks, err := marksOf(c.Store)
	if err == nil {
		err = marks.Collect(ctx, func(crash crashes.Crash) error { return c.add(ctx, crash) })
	}
	if err != nil {
		c.Log.Warn("count crashes of supervisors", "err", err)
	}
}

func (c CrashedRuns) add(ctx context.Context, crash crashes.Crash) error {
	var errs error
	for _, id := range crash.Runs {
		if !state.IsID(id) {
			continue
		}
		n, err := crashes.Add(c.Store.RunDir(id), crash.Process, time.Now())
		if err == nil && n > crashes.Suspect && len(crash.Runs) == 1 {
			err = c.SetAside(ctx, id, crashes.Reason(crash.Text), crash.Text)
		}
		if !core.IsKind(err, core.NotFound) { // else the run was removed
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// suspect reports whether a run may crash its supervisor.
func (c CrashedRuns) suspect(id string) bool {
	n, err := crashes.Count(c.Store.RunDir(id))
	return err == nil && n >= crashes.Suspect
}

// Abandoned reports whether a run that is over has crashed a supervisor of its own. Only
// its clean-up is left, which no further supervisor tries.
func (c CrashedRuns) Abandoned(ctx context.Context, id string) bool {
	n, err := crashes.Count(c.Store.RunDir(id))
	if err != nil || n <= crashes.Suspect {
		return false
	}
	run, err := c.Store.Run(ctx, id)
	return err == nil && run.State.Final()
}

// Groups divides runs among supervisors, by suffixes of their keys. Suspects are apart from
// all others.
func (c CrashedRuns) Groups(ids []string) map[string][]string {
	groups := map[string][]string{}
	for i, group := range crashes.Divide(slices.Sorted(slices.Values(ids)), c.suspect) {
		switch {
		case len(group) == 0:
		case i == 0:
			groups[""] = group
		default:
			groups["-"+group[0]] = group
		}
	}
	return groups
}
