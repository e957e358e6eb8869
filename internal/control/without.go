package control

import (
	"context"
	"encoding/json"

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
	raw, err := json.Marshal(said{Attempt: attempts[len(attempts)-1].N, Without: true})
	if err != nil {
		return err
	}
	return c.Store.SaySite(ctx, run.ID, raw)
}

// doesWithout tells whether the run's user has said so.
func (a *attempt) doesWithout(ctx context.Context) bool {
	if !a.stopAsked() {
		return false
	}
	raw, err := a.c.Store.Said(ctx, a.run.ID)
	var s said
	return err == nil && raw != nil && json.Unmarshal(raw, &s) == nil && s.Attempt == a.rec.N && s.Without
}
