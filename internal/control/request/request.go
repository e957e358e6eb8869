// Package request writes what users ask of runs, each as a row of the state. The controller of
// the run reads it, in another process perhaps. The package calls no head by itself.
package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// mostReason bounds the text of an error in a record, in bytes.
const mostReason = 4 << 10

// Requests records what users ask of runs.
type Requests struct {
	Store *state.Store
	// Seen is the number of the attempt that the user has seen; 0: the run had none. Nothing is
	// asked of a run with a later one. nil: whichever attempt it has is meant.
	Seen *int
}

// Ask records a request that means the last of a run's attempts. Invalid: it is another one
// than the user has seen, or the run is over.
func (q Requests) Ask(ctx context.Context, run string, attempts []state.Attempt, kind state.RequestKind, sites []spec.Site) (state.Request, error) {
	r := state.Request{Run: run, Kind: kind}
	if n := len(attempts); n > 0 {
		r.Attempt = attempts[n-1].N
	}
	if len(sites) > 0 {
		raw, err := json.Marshal(sites)
		if err != nil {
			return r, err
		}
		r.Sites = raw
	}
	if q.Seen == nil {
		return q.Store.Requests().Ask(ctx, r)
	}
	r.Attempt, r.IfLast = *q.Seen, true
	r, err := q.Store.Requests().Ask(ctx, r)
	if err == nil && r.Result == state.RequestOvertaken {
		err = &core.Error{
			Kind: core.Invalid, Op: "ask for a " + string(kind) + " of run", Object: run, Err: fmt.Errorf("it is over, or no longer at attempt %d", *q.Seen),
			Remedy: "`bee show " + run + "` shows its present attempt. If that one is meant, ask again.",
		}
	}
	return r, err
}

// Stop records that a run shall end.
func (q Requests) Stop(ctx context.Context, run string) error {
	_, err := q.Ask(ctx, run, nil, state.RequestStop, nil)
	return err
}

// askOf records a request that means one attempt of a run, and calls ask as askHead does. The
// request is refused where that fails. It stays open where its head may have heard it.
func (q Requests) askOf(ctx context.Context, run state.Run, attempt int, kind state.RequestKind, sites []spec.Site, ask func() error) (state.Request, error) {
	r, err := q.Ask(ctx, run.ID, []state.Attempt{{N: attempt}}, kind, sites)
	if err != nil {
		return r, err
	}
	err = q.askHead(ctx, run, attempt, ask)
	if err == nil || errors.As(err, new(unsettledError)) { // it counts if the job was asked
		return r, err
	}
	return r, errors.Join(err, q.Store.Requests().Answer(context.WithoutCancel(ctx), r.ID, state.RequestRefused, core.Printable(err.Error(), mostReason)))
}

// done is askOf for a request that is done once the head has heard it.
func (q Requests) done(ctx context.Context, run state.Run, attempt int, kind state.RequestKind, ask func() error) error {
	r, err := q.askOf(ctx, run, attempt, kind, nil, ask)
	if err != nil {
		return err
	}
	return q.Store.Requests().Answer(context.WithoutCancel(ctx), r.ID, state.RequestDone, "")
}
