package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// LeaveBehind has a run that is not over continue in the background, where the process that controlled
// it leaves: the job may compute, and nobody would end it.
func (s *Session) LeaveBehind(ctx context.Context, id string, lock *state.Lock) {
	run, err := s.Store.Run(ctx, id)
	if err == nil && (run.State.Final() || run.State.Resumable()) {
		return
	}
	if err = lock.Unlock(); err == nil {
		err = s.Background(id)
	}
	if err != nil {
		s.Log.Warn("hand over to the background", "run", id, "err", err)
	}
}

// Named gives the runs that the arguments of a command mean, each once.
func (s *Session) Named(ctx context.Context, words []string, why state.Meaning) ([]state.Run, error) {
	var runs []state.Run
	for _, w := range words {
		run, err := s.Store.FindRun(ctx, w, why)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(runs, func(r state.Run) bool { return r.ID == run.ID }) {
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// WaitLook is how often bee wait looks at the records.
const WaitLook = 250 * time.Millisecond

// AwaitEnds returns the runs that are over, once all are, or one of them.
func (s *Session) AwaitEnds(ctx context.Context, runs []state.Run, one bool) ([]state.Run, error) {
	for {
		var over []state.Run
		var waiting string
		for i := range runs {
			run, err := s.Store.Run(ctx, runs[i].ID)
			if err != nil {
				return nil, waitError(ctx, runs[i].ID, err)
			}
			if run.State.Final() || run.State.Resumable() {
				over = append(over, run)
			} else {
				waiting = run.ID
			}
		}
		if len(over) == len(runs) || one && len(over) > 0 {
			return over, nil
		}
		select {
		case <-time.After(WaitLook):
		case <-ctx.Done():
			return nil, waitError(ctx, waiting, ctx.Err())
		}
	}
}

// waitError is why the end of a run was not seen.
func waitError(ctx context.Context, run string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &core.Error{Kind: core.Busy, Op: "wait for run", Object: run, Err: errors.New("the time is up, and it is not over"), Remedy: fmt.Sprintf("`bee show %s` shows what it does. It continues.", run)}
	}
	return err
}
