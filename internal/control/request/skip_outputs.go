package request

import (
	"context"

	"github.com/bee-hpc/bee/internal/state"
)

// SkipOutputs notes, in its user's name, that a run which is asked to end shall not collect
// the outputs of its present attempt: they are removed with all that it has on its site. It
// is for outputs that can never be written to their place on the submitting machine.
func (q Requests) SkipOutputs(ctx context.Context, run state.Run) error {
	attempts, err := q.Store.Attempts(ctx, run.ID)
	if n := len(attempts); err != nil || n == 0 || attempts[n-1].Released() {
		return err // there are none
	}
	_, err = q.Ask(ctx, run.ID, attempts, state.RequestWithoutOutputs, nil)
	return err
}
