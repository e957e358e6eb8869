// Package records fills a state directory with many runs, as their controllers leave them, for
// what is tested or measured beside them.
package records

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// liveEach is of how many runs one is not over.
const liveEach = 20_000

// Runs records runs, most of which have succeeded, into a directory of state.
func Runs(ctx context.Context, dir string, many int) error {
	return fill(ctx, dir, many, func(int) state.Case { return state.Case{} })
}

// Cases records an array, most of whose cases have succeeded.
func Cases(ctx context.Context, dir string, many int) error {
	array := state.NewID()
	return fill(ctx, dir, many, func(i int) state.Case {
		return state.Case{Array: array, Name: "old", Number: i + 1}
	})
}

func fill(ctx context.Context, dir string, many int, place func(i int) state.Case) error {
	s, err := state.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer s.Close()
	code := 0
	for i := range many {
		at := time.Unix(1_700_000_000+int64(i), 0)
		run := state.Run{ID: state.NewID(), Name: "old", State: state.Succeeded, Created: at, Ended: at.Add(time.Minute), ExitCode: &code, Case: place(i)}
		sub := submission.Submission{Version: 1, Job: spec.Job{Name: "old", Nodes: 2}, Sites: []spec.Site{{Name: "local", Provider: "local"}}}
		if c := run.Case; c.Array != "" {
			run.Name = fmt.Sprintf("%s.%d", c.Name, c.Number)
			sub.Array = &submission.ArrayCase{ID: c.Array, Name: c.Name, Number: c.Number, Of: many}
		}
		if run.Submission, err = json.Marshal(sub); err != nil {
			return err
		}
		if i%liveEach == 0 {
			run.State, run.ExitCode, run.Ended = state.Suspended, nil, time.Time{}
		}
		attempt := state.Attempt{
			Run: run.ID, N: 1, Site: "local", Provider: "local", State: state.Closed, Result: state.Exited, Verdict: state.Completed, Started: at, Ended: at.Add(time.Minute),
			Record: state.Record{Hosts: []core.Host{{Name: "h0"}, {Name: "h1"}}, ExitCode: &code},
		}
		if _, err := s.Write(ctx, state.Change{Run: &run, Attempts: []state.Attempt{attempt}}); err != nil {
			return err
		}
	}
	return nil
}
