package request

import (
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// NotSuspended says why a run cannot be resumed.
func NotSuspended(run state.Run) error {
	return &core.Error{
		Kind: core.Invalid, Op: "resume run", Object: run.ID, Err: errors.New("it is " + string(run.State) + ", not suspended"),
		Remedy: "Only a suspended run can be resumed, and one that is queued sent to other sites, with --site; `bee show " + run.ID + "` shows its state.",
	}
}

// Resume records that a suspended run shall continue from its checkpoint, on given sites,
// in that order, before those that it has; none: on these, and what its sites file has by
// now beside them. Its controller does that.
func (q Requests) Resume(ctx context.Context, run state.Run, sites []spec.Site) error {
	if !run.State.Resumable() {
		return NotSuspended(run)
	}
	attempts, err := q.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	if run.Suspended == state.ReasonTicket && !slices.ContainsFunc(attempts, func(a state.Attempt) bool { return a.Lease != nil }) {
		return &core.Error{
			Kind: core.Invalid, Op: "resume run", Object: run.ID, Err: errors.New("it continues by its ticket alone, as the record here has no hosts of it"),
			Remedy: "`bee wait --ticket FILE` continues it on any machine, also on this one; `bee stop " + run.ID + "` ends its record here.",
		}
	}
	_, err = q.Ask(ctx, run.ID, attempts, state.RequestResume, sites)
	return err
}
