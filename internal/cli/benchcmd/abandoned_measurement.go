package benchcmd

import (
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// leftTimeout bounds the end of a measurement that a study has left which was killed.
const leftTimeout = time.Minute

// endLeft ends the measurements of studies that were killed, as they would disturb others, and
// removes their records.
func (a *Commands) endLeft(ctx context.Context, s *workspace.Session) error {
	left, err := leftNotes(a.StateDir)
	for _, note := range left {
		err = errors.Join(err, a.endNoted(ctx, s, note))
	}
	return err
}

func (a *Commands) endNoted(ctx context.Context, s *workspace.Session, note *runNote) error {
	defer note.remove()
	id, err := note.run()
	if err != nil || !state.IsID(id) {
		return err
	}
	run, err := s.Store.Run(ctx, id)
	if core.IsKind(err, core.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !run.State.Final() {
		a.benchStep("ending the measurement of a study that was killed, run " + id)
		if run, err = a.endRun(ctx, s, id); err != nil {
			return err
		}
	}
	if run.State.Final() {
		err = s.Garbage().Forget(ctx, run, control.Leaving{OnlyCopies: true})
	}
	if err != nil {
		a.benchStep("run " + id + " of a study that was killed is left: " + output.Printable(err.Error()))
	}
	return nil
}

// endRun ends a run. Where its site does not answer in time, a background process continues.
func (a *Commands) endRun(ctx context.Context, s *workspace.Session, id string) (state.Run, error) {
	if err := s.Store.Requests().AskStop(ctx, id); err != nil {
		return state.Run{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, leftTimeout)
	defer cancel()
	lock, err := s.Store.Locks().Acquire(id)
	if core.IsKind(err, core.Busy) { // a background process has continued it
		run, err := s.Store.Run(ctx, id)
		if err != nil {
			return run, err
		}
		if _, err := s.Store.Locks().Nudge(id); err != nil {
			return run, err
		}
		if ended, err := s.AwaitEnds(bounded, []state.Run{run}, false); err == nil {
			return ended[0], nil
		}
		return run, ctx.Err()
	}
	if err != nil {
		return state.Run{}, err
	}
	s.KeepBinary(bounded)
	run, err := s.Drive(bounded, id, nil)
	if err != nil {
		s.LeaveBehind(context.WithoutCancel(ctx), id, lock)
		return run, ctx.Err()
	}
	return run, lock.Unlock()
}
