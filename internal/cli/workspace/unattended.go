package workspace

import (
	"context"
	"slices"

	"github.com/bee-hpc/bee/internal/supervisor"
)

// unsupervised returns the runs that need a controller and have none.
func (s *Session) unsupervised(ctx context.Context) ([]string, error) {
	ids, err := s.Garbage().Orphans(ctx)
	return s.unattended(ctx, ids), err
}

// unattended returns those of some runs without a controller that no supervisor is to take
// already.
func (s *Session) unattended(ctx context.Context, ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return supervisor.IsLeft(s.Store, id) || s.crashed().Abandoned(ctx, id) })
}

// WarnUnsupervised prints which of some runs have no controller, and the remedy. It starts
// nothing: for commands that only read.
func (s *Session) WarnUnsupervised(ctx context.Context, among func(id string) bool) error {
	ids, err := s.unsupervised(ctx)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !among(id) })
	switch len(ids) {
	case 0:
	case 1:
		s.Workspace.Say("no controller works on run %s now: `bee supervise` continues it", ids[0])
	default:
		s.Workspace.Say("no controllers work on %d runs now: `bee supervise` continues them", len(ids))
	}
	return nil
}
