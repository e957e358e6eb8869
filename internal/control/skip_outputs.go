package control

import (
	"context"

	"github.com/bee-hpc/bee/internal/state"
)

// DoWithout notes, in its user's name, that a run which is asked to end shall not collect
// the outputs of its present attempt: they are removed with all that it has on its site. It
// is for outputs that can never be written to their place on the submitting machine.
func (c *Controller) DoWithout(ctx context.Context, run state.Run) error {
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if n := len(attempts); err != nil || n == 0 || attempts[n-1].Released() {
		return err // there are none
	}
	_, err = requests{c.Store}.ask(ctx, run.ID, attempts, state.RequestWithoutOutputs, nil)
	return err
}

// doesWithout reports whether the run's user has asked for that.
func (rec *record) doesWithout(ctx context.Context) bool {
	if !rec.of.stopAsked() {
		return false
	}
	r, err := rec.of.c.Store.Requests().Open(ctx, rec.of.run.ID, state.RequestWithoutOutputs)
	if err != nil || r == nil || r.Attempt != rec.N {
		return false
	}
	rec.answers = append(rec.answers, state.Request{ID: r.ID, Run: r.Run, Result: state.RequestDone})
	return true
}
