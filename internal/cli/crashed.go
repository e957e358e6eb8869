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

// marked records the runs of this supervisor. Where no record can be made, as on a full
// disk, the controllers start nevertheless.
type marked struct {
	s    *session
	mark *crashes.Mark // nil where there is no record
}

func (s *session) beginMark(ctx context.Context) marked {
	marks, err := s.marks()
	m := marked{s: s}
	if err == nil {
		m.mark, err = marks.Begin(ctx)
	}
	if err != nil {
		s.Log.Warn("mark this supervisor", "err", err)
	}
	return m
}

func (m marked) add(id string) {
	if m.mark == nil {
		return
	}
	if err := m.mark.Add(id); err != nil {
		m.s.Log.Warn("record a run of this supervisor", "run", id, "err", err)
	}
}

// remove is for a run without a controller from now on. Its crashes are forgotten as well.
func (m marked) remove(id string) {
	if m.mark == nil {
		return
	}
	if err := errors.Join(m.mark.Remove(id), crashes.Clear(m.s.Store.RunDir(id))); err != nil {
		m.s.Log.Warn("remove the record of a run of this supervisor", "run", id, "err", err)
	}
}

func (m marked) close() {
	if m.mark == nil {
		return
	}
	if err := m.mark.Close(); err != nil {
		m.s.Log.Warn("remove the mark of this supervisor", "err", err)
	}
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
