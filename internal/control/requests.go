package control

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// requests records what users ask of runs.
type requests struct{ store *state.Store }

// ask records a request that means the last of a run's attempts.
func (q requests) ask(ctx context.Context, run string, attempts []state.Attempt, kind state.RequestKind, sites []spec.Site) (state.Request, error) {
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
	return q.store.Requests().Ask(ctx, r)
}

// askOf records a request that means one attempt of a run, and calls ask as askHead does. The
// request is refused where that fails. It stays open where its head may have heard it.
func (q requests) askOf(ctx context.Context, run state.Run, attempt int, kind state.RequestKind, sites []spec.Site, ask func() error) (state.Request, error) {
	r, err := q.ask(ctx, run.ID, []state.Attempt{{N: attempt}}, kind, sites)
	if err != nil {
		return r, err
	}
	err = q.askHead(ctx, run, attempt, ask)
	if err == nil || errors.As(err, new(unsettledError)) { // it counts if the job was asked
		return r, err
	}
	return r, errors.Join(err, q.store.Requests().Answer(context.WithoutCancel(ctx), r.ID, state.RequestRefused, core.Printable(err.Error(), maxText)))
}
