package control

import (
	"context"

	"github.com/bee-hpc/bee/internal/state"
)

// DoWithout notes, in its user's name, that a run which is told to end shall not bring
// home the outputs of its present attempt: they are removed with all that it has on its
// site. It is for outputs whose place at home can never take them.
func (c *Controller) DoWithout(ctx context.Context, run state.Run) error {
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if n := len(attempts); err != nil || n == 0 || attempts[n-1].Released() {
		return err // there are none
	}
	_, err = c.ask(ctx, run.ID, attempts, state.RequestWithoutOutputs, nil)
	return err
}

// doesWithout tells whether the run's user has said so.
func (a *attempt) doesWithout(ctx context.Context) bool {
	if !a.stopAsked() {
		return false
	}
	r, err := a.c.Store.OpenRequest(ctx, a.run.ID, state.RequestWithoutOutputs)
	if err != nil || r == nil || r.Attempt != a.rec.N {
		return false
	}
	a.answers = append(a.answers, state.Request{ID: r.ID, Run: r.Run, Result: state.RequestDone})
	return true
}
