package recordcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/report/page"
	"github.com/bee-hpc/bee/internal/state"
)

// WriteResults writes what became of runs: of one, or of the cases of an array. With old,
// none was run, as nothing has changed since.
func (a *Commands) WriteResults(ctx context.Context, s *workspace.Session, files workspace.ResultFiles, runs []state.Run, old bool) error {
	if !files.Wanted() {
		return nil
	}
	results, err := a.resultsOf(ctx, s, runs, old)
	if err != nil {
		return err
	}
	return files.Write(results)
}

// resultsOf is what became of runs, as WriteResults has it.
func (a *Commands) resultsOf(ctx context.Context, s *workspace.Session, runs []state.Run, old bool) (*page.Results, error) {
	results := &page.Results{Name: runs[0].Name, Version: a.Version, Made: time.Now()}
	array := runs[0].Case.Array
	alone := len(runs) == 1 && array == ""
	switch {
	case slices.ContainsFunc(runs, func(r state.Run) bool { return r.Case.Array != array }) || array == "" && !alone:
		results.Name = "runs"
	case array != "":
		results.ID, results.Name = array, cmp.Or(runs[0].Case.Name, array)
	}
	var (
		end    *logEnd
		endErr error
		logs   int
	)
	for _, run := range runs {
		one, err := resultOf(ctx, s, run)
		if err != nil {
			return nil, err
		}
		if old {
			one.Outcome, one.Message = page.Skipped, "Nothing is new since run "+run.ID+"."
			if !run.State.Final() {
				one.Message = "Run " + run.ID + " of it is not over."
			}
		}
		if one.Outcome == page.Failed || one.Outcome == page.Errored || len(runs) == 1 && !old {
			if logs++; logs <= page.MostLogs {
				if end, endErr = endOfOutput(ctx, s, run); endErr != nil { // the result counts without it
					a.PrintError(endErr)
				}
				one.Log, _ = end.text()
			}
		}
		results.Cases = append(results.Cases, one)
	}
	if alone && !old {
		p, err := pageOf(ctx, s, runs[0])
		if err != nil {
			return nil, err
		}
		end.show(p, endErr) // it was read above
		results.Page = p
	}
	return results, nil
}

// resultOf is how a run ended, or that it has not.
func resultOf(ctx context.Context, s *workspace.Session, run state.Run) (page.Result, error) {
	v, err := runview.Summary(ctx, s, run)
	if err != nil {
		return page.Result{}, err
	}
	r := page.Result{Name: v.Name, ID: v.ID, State: string(v.State), Meaning: report.StateText(run), Message: run.Message, Remedy: run.Remedy, Kind: run.Kind, Began: v.Created, Took: time.Since(v.Created)}
	if v.Array != nil {
		r.Name = fmt.Sprintf("case %d (%s)", v.Array.Number, v.Array.Values)
	}
	if v.Ended != nil {
		r.Took = v.Ended.Sub(v.Created)
	}
	if n := len(v.Attempts); n > 0 {
		r.Site = v.Attempts[n-1].Site
	}
	switch {
	case run.State == state.Succeeded:
		r.Outcome = page.Passed
	case run.State == state.Queued || run.State == state.Running:
		r.Outcome, r.Kind = page.Open, r.State
	case run.State == state.Failed && run.ExitCode != nil && *run.ExitCode != 0:
		code := "exit code " + strconv.Itoa(*run.ExitCode)
		r.Outcome, r.Kind, r.Message = page.Failed, code, cmp.Or(r.Message, code)
	default:
		r.Outcome, r.Kind = page.Errored, cmp.Or(r.Kind, r.State)
	}
	return r, nil
}

// endOfOutput reads the end of what a run has printed in its last attempt that printed
// anything. The cases of a pack share its log.
func endOfOutput(ctx context.Context, s *workspace.Session, run state.Run) (*logEnd, error) {
	o, of := LogsOptions{tail: -1}, run.ID
	if run.Case.Pack != "" {
		of, o.packed = run.Case.Pack, run.Case.Number
	}
	attempts, err := s.Store.Attempts(ctx, of)
	if core.IsKind(err, core.NotFound) {
		err = nil
	}
	for o.attempt = len(attempts); o.attempt > 0 && err == nil; o.attempt-- {
		end := logEnd{attempt: o.attempt}
		one := &Commands{s.Workspace.WritingTo(&end, &end)}
		if err = one.TaskOutput(ctx, s, of, o); end.kept != nil {
			return &end, err
		}
	}
	return &logEnd{}, err
}
