package control

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// unreadError is the error where a head may have left a result, which cannot be read now
// for a reason on the submitting machine. Whatever it is, the attempt is not to be given up.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return e.err.Error() }

// lastResult reads the result of a head that is gone, or returns why where there
// is none. Neither: it is not known now, as the connection is broken. To take that
// for a lost attempt would throw away the checkpoint that it left.
func (a *attempt) lastResult(ctx context.Context, why error, after *int64) (*protocol.Result, error) {
	result, err := a.left(ctx, after)
	if err == nil {
		return result, nil
	}
	_, torn := errors.AsType[*json.SyntaxError](err)
	switch kind := core.KindOf(err); {
	case errors.As(err, new(headlink.InvalidReport)):
		return nil, err
	case kind == core.NotFound || kind == core.Lost || torn:
		if a.rec.autostarted() {
			a.catchUp(ctx, after)
		}
		return nil, why
	case kind == core.Transient || ctx.Err() != nil:
		return nil, nil //nolint:nilnil // see above
	}
	return nil, &unreadError{err}
}

// left gives the result that a head has left, and takes note of what happened
// after the events that this controller has seen.
func (a *attempt) left(ctx context.Context, after *int64) (*protocol.Result, error) {
	result, err := a.at.headFiles().Result(ctx)
	if err != nil {
		return nil, err
	}
	if result.SetupDone {
		err = a.reports.setupDone(ctx)
	}
	a.unseen = *after == 0
	a.catchUp(ctx, after)
	a.lastSeen = result.Ended
	return result, err
}

// catchUp takes note of the events in the journal of a head that has ended.
func (a *attempt) catchUp(ctx context.Context, after *int64) {
	err := a.at.headFiles().Journal(ctx, func(e protocol.Event) bool {
		a.lastSeen = e.Time
		if e.Seq > *after {
			*after = e.Seq
			a.reports.handle(ctx, e) //nolint:errcheck // a record that cannot be written is noticed by the next
		}
		return false
	})
	if err != nil && !core.IsKind(err, core.NotFound) {
		a.rec.TaskBegan = true // as far as is known
	}
}

// showRest prints the rest of the task's output, which the head has not sent: it ends
// when it has a result, perhaps before it has sent all. A short attempt that its
// site has started may be over before any controller connects.
func (a *attempt) showRest(ctx context.Context) {
	if a.c.Output == nil {
		return
	}
	log := OutputLog(a.c.Store.RunDir(a.run.ID), a.rec.N)
	tasklog.Read(ctx, log, a.shown, a.c.Output) //nolint:errcheck // `bee logs` shows it, or says why not
}
