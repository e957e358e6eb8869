package benchcmd

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// runFile, in the state directory, has the run of the measurement that is taken now. The lock
// of studies is that of the file as well.
const runFile = "bench.run"

// leftTimeout bounds the end of a measurement that a study has left which was killed.
const leftTimeout = time.Minute

// noteRun records the run that measures; "": none does.
func noteRun(stateDir, id string) error {
	file := filepath.Join(stateDir, runFile)
	if id == "" {
		return fsutil.RemoveAll(file)
	}
	return fsutil.WriteFile(file, []byte(id+"\n"), 0o600)
}

// endLeft ends the measurement of a study that was killed, as it would disturb others, and
// removes its record.
func (a *Commands) endLeft(ctx context.Context, s *workspace.Session) error {
	text, err := fsutil.ReadFile(a.StateDir, runFile, 64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	id := strings.TrimSpace(string(text))
	if !state.IsID(id) {
		return noteRun(a.StateDir, "")
	}
	run, err := s.Store.Run(ctx, id)
	if core.IsKind(err, core.NotFound) {
		return noteRun(a.StateDir, "")
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
	return noteRun(a.StateDir, "")
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
