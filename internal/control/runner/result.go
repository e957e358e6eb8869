package runner

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
func (w *headWatch) lastResult(ctx context.Context, why error, after *int64) (*protocol.Result, error) {
	result, err := w.readLeft(ctx, after)
	if err == nil {
		return result, nil
	}
	_, torn := errors.AsType[*json.SyntaxError](err)
	switch kind := core.KindOf(err); {
	case errors.As(err, new(headlink.InvalidReport)):
		return nil, err
	case kind == core.NotFound || kind == core.Lost || torn:
		if w.rec.autostarted() {
			w.catchUp(ctx, after)
		}
		return nil, why
	case kind == core.Transient || ctx.Err() != nil:
		return nil, nil // see above
	}
	return nil, &unreadError{err}
}

// readLeft gives the result that a head has left, and takes note of what happened
// after the events that this controller has seen.
func (w *headWatch) readLeft(ctx context.Context, after *int64) (*protocol.Result, error) {
	result, err := w.at.headFiles().Result(ctx)
	if err != nil {
		return nil, err
	}
	if result.SetupDone {
		err = w.reports.setupDone(ctx)
	}
	w.unseen = *after == 0
	w.catchUp(ctx, after)
	w.lastSeen = result.Ended
	return result, err
}

// catchUp takes note of the events in the journal of a head that has ended.
func (w *headWatch) catchUp(ctx context.Context, after *int64) {
	err := w.at.headFiles().Journal(ctx, func(e protocol.Event) bool {
		w.lastSeen = e.Time
		if e.Seq > *after {
			*after = e.Seq
			core.BestEffort(w.reports.handle(ctx, e)) // a record that cannot be written is noticed by the next
		}
		return false
	})
	if err != nil && !core.IsKind(err, core.NotFound) {
		w.rec.TaskBegan = true // as far as is known
	}
}

// showRest prints the rest of the task's output, which the head has not sent: it ends
// when it has a result, perhaps before it has sent all. A short attempt that its
// site has started may be over before any controller connects.
func (w *headWatch) showRest(ctx context.Context) {
	if w.rec.of.c.Output == nil {
		return
	}
	log := headlink.OutputLog(w.rec.of.c.Store.RunDir(w.rec.of.run.ID), w.rec.N)
	core.BestEffort(tasklog.Read(ctx, log, w.shown, w.rec.of.c.Output)) // `bee logs` shows it, or says why not
}
