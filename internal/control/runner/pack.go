package runner

import (
	"context"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// packedCases are the numbers of the cases of a pack.
func packedCases(job *spec.Job) map[int]bool {
	numbers := make(map[int]bool, len(job.Pack))
	for _, c := range job.Pack {
		numbers[c.Number] = true
	}
	return numbers
}

// openCases returns a job without those cases of a pack that are over.
func openCases(ctx context.Context, store *state.Store, run string, job *spec.Job) (*spec.Job, error) {
	if len(job.Pack) == 0 {
		return job, nil
	}
	live, err := store.Arrays().Packed(ctx, run)
	if err != nil {
		return nil, err
	}
	rest := *job
	rest.Pack = slices.DeleteFunc(slices.Clone(job.Pack), func(c spec.PackedCase) bool { return !slices.Contains(live, c.Run) })
	return &rest, nil
}

// caseEvent records that a case of the pack has begun, or how it has ended. A case is over once
// its outputs are collected, which is at the end of the pack. What it ends with is set once.
func (h *headReports) caseEvent(ctx context.Context, e protocol.Event) error {
	pack := h.rec.of.sub.Job.Pack
	i := slices.IndexFunc(pack, func(c spec.PackedCase) bool { return c.Number == e.Case.Number })
	if i < 0 { // which is checked where events enter
		return nil
	}
	run, err := h.rec.of.c.Store.Run(ctx, pack[i].Run)
	if core.IsKind(err, core.NotFound) || err == nil && (run.State.Final() || run.Case.Pack != h.rec.of.run.ID) {
		return nil
	}
	if err != nil {
		return err
	}
	end := e.Case
	run.State, run.ExitCode, run.Kind, run.Message = state.Running, nil, end.Kind, end.Message // where it begins again, as its result was lost
	if end.Exit != nil {
		code := end.Exit.Code
		run.ExitCode = &code
	}
	if end.Ended() && !pack[i].Collects {
		run.Ended, run.State = time.Now(), state.Failed
		if run.ExitCode != nil && *run.ExitCode == 0 {
			run.State = state.Succeeded
		}
	}
	return recorded(h.rec.of.c.Store.PutRun(ctx, run))
}
