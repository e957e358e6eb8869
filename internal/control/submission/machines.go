package submission

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// FirstRun names the run that had the machines of a run with this submission first.
func (s *Submission) FirstRun(run string) string { return launch.First(s.Machines, run) }

// Alone makes sure that no run but one has machines: the same ones must not run
// twice, for they would do the same things.
func Alone(ctx context.Context, store *state.Store, machines, but string) error {
	active, err := store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return err
	}
	for _, run := range active {
		if sub, err := Of(run); err == nil && run.ID != but && sub.FirstRun(run.ID) == machines {
			return &core.Error{
				Kind: core.Busy, Err: fmt.Errorf("run %s, which has the same machines, is %s", run.ID, run.State),
				Remedy: "End it first: `bee stop " + run.ID + "`.",
			}
		}
	}
	return nil
}
