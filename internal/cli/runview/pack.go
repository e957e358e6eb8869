package runview

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
)

// Pack is a run whose lease cases of an array share.
type Pack struct {
	View
	run      state.Run
	attempts []state.Attempt
	cases    int // of which the pack was made
}

// PackOf returns a pack by its id. NotFound: it was removed.
func PackOf(ctx context.Context, s *workspace.Session, id string) (*Pack, error) {
	run, err := s.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	p := &Pack{run: run, cases: 1}
	if p.View, err = Timed(ctx, s, run); err != nil {
		return nil, err
	}
	if sub, err := submission.Of(run); err == nil {
		p.cases = max(1, len(sub.Job.Pack))
	}
	p.attempts, err = s.Store.Attempts(ctx, id)
	return p, err
}

// Complete gives a case what it has of its pack: attempts, the uses of its time, and an equal
// share of the cost.
func (p *Pack) Complete(run state.Run, v *View) {
	v.Attempts = []Attempt{}
	for _, a := range p.View.Attempts {
		if run.Ended.IsZero() || !a.Started.After(run.Ended) {
			v.Attempts = append(v.Attempts, a)
		}
	}
	v.Time = map[report.Use]float64{}
	for on, took := range report.SpentOfCase(run, p.run, p.attempts, time.Now()) {
		v.Time[on] = took.Seconds()
	}
	v.Cost, v.Currency = p.View.Cost/float64(p.cases), p.View.Currency
	v.Costs = nil
	for _, c := range p.View.Costs {
		v.Costs = append(v.Costs, Cost{c.Amount / float64(p.cases), c.Currency})
	}
}
