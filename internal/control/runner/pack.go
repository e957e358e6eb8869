package runner

import (
	"context"
	"path"
	"slices"
	"strings"
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

// begunNone is the PackStopAt of an attempt in which no further case begins.
const begunNone = -1

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
	if job.PackStopAt > 0 { // those of the pack that are not over are counted where they run
		failed, err := store.Arrays().FailedBeside(ctx, run)
		if err != nil {
			return nil, err
		}
		if rest.PackStopAt -= failed; rest.PackStopAt < 1 {
			rest.PackStopAt = begunNone
		}
	}
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
	end, known := e.Case, run.ExitCode != nil || run.Message != ""
	switch {
	case known && !end.Ended() && run.EndedIn < h.rec.N: // it begins again, as the checkpoint with its result was lost
		if err := withdraw(ctx, h.rec, run.EndedIn, end.Number); err != nil {
			return err
		}
	case known: // by an event that comes again
		return nil
	}
	run.State, run.ExitCode, run.Kind, run.Message, run.EndedIn = state.Running, nil, end.Kind, end.Message, 0
	if end.Ended() {
		run.EndedIn = h.rec.N
		if e.Rank < 0 && h.rec.Restored > 0 { // it had ended before
			run.EndedIn = h.rec.Restored
		}
	}
	if end.Exit != nil {
		code := end.Exit.Code
		run.ExitCode = &code
	}
	change := state.Change{Run: &run}
	switch {
	case end.NotBegun():
		why := errArrayStopped(run.Case)
		run.Ended, run.State, run.Message, run.Remedy = time.Now(), state.Stopped, why.Error(), core.Remedy(why)
	case end.Ended() && !pack[i].Collects:
		run.Ended, run.State = time.Now(), state.Failed
		if run.ExitCode != nil && *run.ExitCode == 0 {
			run.State = state.Succeeded
		}
	}
	if of := h.rec.of.sub.Array; of != nil && of.StopAt > 0 && end.Failed() {
		change.StopArrayAt, change.StopRuns, change.StopWhy = of.StopAt, of.ID, stopOf(errArrayStopped(run.Case))
	}
	_, err = h.rec.of.c.Store.Write(ctx, change)
	return recorded(err)
}

// withdrawBeyond withdraws what cases of the run's pack have ended with in the attempts between one
// whose checkpoint was restored, 0 where there is none, and this one.
func withdrawBeyond(ctx context.Context, rec *record, restored int) error {
	for n := restored + 1; n < rec.N && len(rec.of.sub.Job.Pack) > 0; n++ {
		if err := withdraw(ctx, rec, n, 0); err != nil {
			return err
		}
	}
	return nil
}

// caseOutputs begins the paths of the outputs of a case of a pack.
func caseOutputs(job *spec.Job, number int) string {
	return path.Join(job.Volume.Path, protocol.CaseDir(number)) + "/"
}

// owedByCase reports whether the case of a pack has succeeded that an output is of: one that has failed,
// or has not begun, ends no other by what it has not written.
func owedByCase(ctx context.Context, rec *record, output int) (bool, error) {
	job := &rec.of.sub.Job
	from := job.Outputs[output].From + "/"
	i := slices.IndexFunc(job.Pack, func(c spec.PackedCase) bool { return strings.HasPrefix(from, caseOutputs(job, c.Number)) })
	if i < 0 {
		return true, nil
	}
	run, err := rec.of.c.Store.Run(ctx, job.Pack[i].Run)
	if core.IsKind(err, core.NotFound) {
		return false, nil
	}
	return run.ExitCode != nil && *run.ExitCode == 0, recorded(err)
}

// collectedCases records of which cases of the run's pack the outputs are here, after an attempt with
// a result. came are those of the job that are, by index. Of what a lost head has left, something has
// to be there.
func collectedCases(ctx context.Context, rec *record, came map[int]bool, r *protocol.Result) error {
	job := &rec.of.sub.Job
	var numbers []int
	for _, c := range job.Pack {
		dir, some, all := caseOutputs(job, c.Number), r.Outputs != nil, true
		for i, o := range job.Outputs {
			if strings.HasPrefix(o.From+"/", dir) {
				some, all = some || came[i], all && (came[i] || o.Optional)
			}
		}
		if some && all {
			numbers = append(numbers, c.Number)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	return recorded(rec.of.c.Store.Arrays().Collected(ctx, rec.of.run.ID, numbers))
}

// withdraw records that the run continues without what cases of its pack have ended with in an
// attempt, or one of them with a number.
func withdraw(ctx context.Context, rec *record, attempt, number int) error {
	if len(rec.of.sub.Job.Pack) == 0 {
		return nil
	}
	site := rec.Site
	if attempt != rec.N {
		attempts, err := rec.of.c.Store.Attempts(ctx, rec.of.run.ID)
		if err != nil {
			return recorded(err)
		}
		if i := slices.IndexFunc(attempts, func(a state.Attempt) bool { return a.N == attempt }); i >= 0 {
			site = attempts[i].Site
		}
	}
	return recorded(rec.of.c.Store.Arrays().Withdraw(ctx, rec.of.run.ID, attempt, number, site))
}
