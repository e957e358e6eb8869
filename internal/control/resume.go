package control

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// NotSuspended says why a run cannot be resumed.
func NotSuspended(run state.Run) error {
	return &core.Error{Kind: core.Invalid, Op: "resume run", Object: run.ID, Err: errors.New("it is " + string(run.State) + ", not suspended"),
		Remedy: "Only a suspended run can be resumed, and one that is queued sent to other sites, with --site; `bee show " + run.ID + "` tells where it stands."}
}

// Resume has a suspended run go on from its checkpoint, on given sites, in that
// order, in place of those it was submitted with; none: on the same. It needs a
// Drive afterwards.
func (c *Controller) Resume(ctx context.Context, run state.Run, sites []spec.Site) (state.Run, error) {
	if run.State != state.Suspended {
		return run, NotSuspended(run)
	}
	sub, err := SubmissionOf(run)
	if err != nil {
		return run, err
	}
	if sub.Job.SavesVM() {
		if err := c.alone(ctx, sub.machines(run.ID), run.ID); err != nil {
			return run, &core.Error{Kind: core.Busy, Op: "resume run", Object: run.ID, Err: err}
		}
	}
	if len(sites) > 0 {
		sub.prefer(sites)
		if run.Submission, err = json.Marshal(sub); err != nil {
			return run, err
		}
	}
	run.State, run.Kind, run.Message, run.Remedy = state.Queued, "", "", ""
	return run, c.Store.PutRun(ctx, run)
}
