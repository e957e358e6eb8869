package recordcmd

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// errNoCases is that of --csv for a run.
func errNoCases(run string) error {
	return &core.Error{Kind: core.Invalid, Op: "write the cases of", Object: run, Err: errors.New("it is a run, and --csv is for arrays"), Remedy: "`bee show --json " + run + "` writes a run for programs."}
}

// showArray prints an array: how far it is, or its cases as a table.
func (a *Commands) showArray(ctx context.Context, s *workspace.Session, array state.Array, asJSON, asCSV bool) error {
	switch {
	case asCSV:
		return a.writeCases(ctx, s, array)
	case asJSON:
		return a.WriteJSON(runview.OfArray(array))
	}
	w := a.On(a.Stdout).Prose()
	w.Row("array", array.ID)
	w.Row("name", array.Name)
	w.Row("state", stateCell(array.State()))
	w.Row("cases", runview.ArrayText(array))
	w.Row("created", array.Created.Local().Format(time.DateTime))
	if array.State().Final() {
		w.Row("ended", fmt.Sprintf("%s (after %s)", array.Ended.Local().Format(time.DateTime), console.DurationText(array.Ended.Sub(array.Created))))
	}
	w.Row("each case", fmt.Sprintf("`bee ps %s`, or `bee show --csv %s` for a spreadsheet", array.ID, array.ID))
	return w.Flush()
}

// writeCases writes the cases of an array as CSV (RFC 4180), one in each row. Columns of
// values and of times begin with a word and a dot, so that no parameter is taken for another
// column.
func (a *Commands) writeCases(ctx context.Context, s *workspace.Session, array state.Array) error {
	runs, err := s.Store.Arrays().Runs(ctx, array.ID)
	if err != nil {
		return err
	}
	values, names := make([]spec.Case, len(runs)), map[string]bool{}
	for i, run := range runs {
		sub, err := control.SubmissionOf(run)
		if err != nil || sub.Array == nil { // of another bee: the rest of the row is known
			continue
		}
		values[i] = sub.Array.Values
		for name := range values[i] {
			names[name] = true
		}
	}
	parameters := slices.Sorted(maps.Keys(names))
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	head := []string{"case", "run", "name"}
	for _, name := range parameters {
		head = append(head, "case."+name)
	}
	head = append(head, "state", "exit_code", "error", "site", "attempts", "created", "ended", "seconds")
	for _, use := range report.Uses() {
		head = append(head, "time."+string(use.On))
	}
	w.Write(append(head, "cost"))
	for i, run := range runs {
		row, err := caseRow(ctx, s, run, parameters, values[i])
		if core.IsKind(err, core.NotFound) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return err
		}
		w.Write(row)
	}
	if w.Flush(); w.Error() != nil {
		return w.Error()
	}
	_, err = a.Stdout.Write(out.Bytes())
	return err
}

// caseRow is the row of a case.
func caseRow(ctx context.Context, s *workspace.Session, run state.Run, parameters []string, values spec.Case) ([]string, error) {
	v, err := runview.Summary(ctx, s, run)
	if err != nil {
		return nil, err
	}
	attempts, err := s.Store.Attempts(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	row := []string{strconv.Itoa(run.Case.Number), run.ID, output.CSVText(run.Name)}
	for _, name := range parameters {
		row = append(row, output.CSVText(values[name]))
	}
	code, failure, site, ended, now := "", "", "", "", time.Now()
	if run.ExitCode != nil {
		code = strconv.Itoa(*run.ExitCode)
	}
	if v.Error != nil {
		failure = v.Error.Kind
	}
	if n := len(attempts); n > 0 {
		site = output.CSVText(attempts[n-1].Site)
	}
	took := now.Sub(run.Created)
	if !run.Ended.IsZero() {
		ended, took = run.Ended.UTC().Format(time.RFC3339), run.Ended.Sub(run.Created)
	}
	row = append(row, string(run.State), code, failure, site, strconv.Itoa(len(attempts)), run.Created.UTC().Format(time.RFC3339), ended, decimals(took.Seconds()))
	spent := report.Spent(run, attempts, now)
	for _, use := range report.Uses() {
		row = append(row, decimals(spent[use.On].Seconds()))
	}
	return append(row, strconv.FormatFloat(v.Cost, 'f', 4, 64)), nil
}

// decimals is a number of seconds.
func decimals(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 3, 64) }
