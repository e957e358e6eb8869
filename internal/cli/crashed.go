package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/crashes"
	"github.com/bee-hpc/bee/internal/state"
)

// marks are the marks of the supervisors of this state directory.
func (s *session) marks() (crashes.Marks, error) {
	return crashes.In(filepath.Join(s.Store.Dir(), "supervisors"))
}

// countCrashes counts the crashes of supervisors for their runs. A run that was in several,
// and has crashed a supervisor of its own, is set aside. Errors are only logged, as other
// runs are not to wait for it.
func (s *session) countCrashes(ctx context.Context) {
	marks, err := s.marks()
	if err == nil {
		err = marks.Collect(ctx, func(crash crashes.Crash) error { return s.countCrash(ctx, crash) })
	}
	if err != nil {
		s.Log.Warn("count crashes of supervisors", "err", err)
	}
}

func (s *session) countCrash(ctx context.Context, crash crashes.Crash) error {
	var errs error
	for _, id := range crash.Runs {
		if !state.IsID(id) {
			continue
		}
		n, err := crashes.Add(s.Store.RunDir(id), crash.Process, time.Now())
		if err == nil && n > crashes.Suspect && len(crash.Runs) == 1 {
			err = s.SetAside(ctx, id, crashes.Reason(crash.Text), crash.Text)
		}
		if !core.IsKind(err, core.NotFound) { // else the run was removed
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// suspect reports whether a run may crash its supervisor.
func (s *session) suspect(id string) bool {
	n, err := crashes.Count(s.Store.RunDir(id))
	return err == nil && n >= crashes.Suspect
}

// crashesAlone reports whether a run that is over has crashed a supervisor of its own. Only
// its clean-up is left, which no further supervisor tries.
func (s *session) crashesAlone(ctx context.Context, id string) bool {
	n, err := crashes.Count(s.Store.RunDir(id))
	if err != nil || n <= crashes.Suspect {
		return false
	}
	run, err := s.Store.Run(ctx, id)
	return err == nil && run.State.Final()
}

// groups divides runs among supervisors, by suffixes of their keys. Suspects are apart from
// all others.
func (s *session) groups(ids []string) map[string][]string {
	groups := map[string][]string{}
	for i, group := range crashes.Divide(slices.Sorted(slices.Values(ids)), s.suspect) {
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
