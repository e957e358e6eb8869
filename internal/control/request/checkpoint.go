package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/state"
)

// heardWithin is how long the record is read after a call that got no answer. A head that
// was killed is noticed within seconds; a host that vanished is not noticed for long.
const heardWithin = 30 * time.Second

// unsettledError is the error of a call that its head may have received or not.
type unsettledError struct{ error }

func (e unsettledError) Unwrap() error { return e.error }

// askHead makes a call that has the job of an attempt write its checkpoint. Where the head
// ends, or the connection breaks, before the answer comes, the run's record shows whether
// the job was asked. Meanwhile ask is called again: the head of that attempt may still
// run, and refuses a request that it knows already as Busy.
func (q Requests) askHead(ctx context.Context, run state.Run, attempt int, ask func() error) error {
	err := ask()
	if !rpc.Unanswered(err) {
		return err
	}
	pause := fsutil.Backoff{First: 50 * time.Millisecond, Longest: 2 * time.Second}
	for begun := time.Now(); ; {
		if known, err := q.heard(ctx, run.ID, attempt); known || err != nil {
			return err
		}
		if time.Since(begun) > heardWithin {
			break
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
		if known, err := q.heard(ctx, run.ID, attempt); known || err != nil {
			return err
		}
		switch again := ask(); {
		case again == nil, core.IsKind(again, core.Busy):
			return nil
		case core.IsKind(again, core.Invalid), core.IsKind(again, core.Unsupported):
			return again
		}
	}
	return unsettledError{&core.Error{
		Kind: core.Transient, Op: "ask for a checkpoint of run", Object: run.ID,
		Err:    fmt.Errorf("its head has not answered (%w), and whether it has heard is not known", err),
		Remedy: "`bee show " + run.ID + "` shows what becomes of it. If the run still computes then, run this command again.",
	}}
}

// heard reports whether the record shows what became of a request to an attempt. The error
// is how the attempt ended where it did not do what was asked.
func (q Requests) heard(ctx context.Context, id string, attempt int) (known bool, err error) {
	attempts, err := q.Store.Attempts(ctx, id)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(attempts, func(a state.Attempt) bool { return a.N > attempt }) {
		return true, nil // the run has moved
	}
	i := slices.IndexFunc(attempts, func(a state.Attempt) bool { return a.N == attempt })
	if i < 0 {
		return false, nil
	}
	switch a := attempts[i]; {
	case a.State == state.Checkpointing || a.Result == state.Checkpointed || a.Answer != "" || a.Decided() && a.Verdict.Goes():
		return true, nil
	case !a.Decided():
		return false, nil
	}
	run, err := q.Store.Run(ctx, id)
	switch {
	case err != nil:
		return false, err
	case !run.State.Final():
		return false, nil
	case run.State != state.Failed || run.ExitCode != nil:
		return true, NoHosts(run)
	}
	return true, &core.Error{
		Kind: core.KindNamed(run.Kind), Op: "ask for a checkpoint of run", Object: id,
		Err:    errors.New("it ended before it was asked: " + run.Message),
		Remedy: cmp.Or(run.Remedy, "`bee show "+id+"` shows how it ended."),
	}
}
