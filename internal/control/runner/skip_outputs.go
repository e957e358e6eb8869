package runner

import (
	"context"

	"github.com/bee-hpc/bee/internal/state"
)

// doesWithout reports whether the run's user has asked that the outputs of its present attempt be
// removed with all that it has on its site.
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
