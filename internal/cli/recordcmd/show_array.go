package recordcmd

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
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
// values, times and metrics begin with a word and a dot, so that no parameter is taken for another
// column.
func (a *Commands) writeCases(ctx context.Context, s *workspace.Session, array state.Array) error {
	all, err := allCasesOf(ctx, s, array)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	head := []string{"case", "run", "name"}
	for _, name := range all.parameters {
		head = append(head, "case."+name)
	}
	head = append(head, "state", "exit_code", "error", "site", "attempts", "created", "ended", "seconds")
	for _, use := range report.Uses() {
		head = append(head, "time."+string(use.On))
	}
	head = append(head, "cost", "currency")
	for _, name := range all.metrics {
		head = append(head, "metric."+name)
	}
	w.Write(head)
	for i := range all.cases {
		w.Write(caseRow(&all.cases[i], &all))
	}
	if w.Flush(); w.Error() != nil {
		return w.Error()
	}
	_, err = a.Stdout.Write(out.Bytes())
	return err
}

// caseRow is the row of a case among others.
func caseRow(v *runview.View, all *arrayCases) []string {
	row := []string{strconv.Itoa(v.Array.Number), v.ID, output.CSVText(v.Name)}
	for _, name := range all.parameters {
		row = append(row, output.CSVText(v.Array.Values[name]))
	}
	code, failure, site, ended := "", "", "", ""
	if v.ExitCode != nil {
		code = strconv.Itoa(*v.ExitCode)
	}
	if v.Error != nil {
		failure = v.Error.Kind
	}
	if n := len(v.Attempts); n > 0 {
		site = output.CSVText(v.Attempts[n-1].Site)
	}
	if v.Ended != nil {
		ended = v.Ended.UTC().Format(time.RFC3339)
	}
	row = append(row, string(v.State), code, failure, site, strconv.Itoa(len(v.Attempts)), v.Created.UTC().Format(time.RFC3339), ended, decimals(tookOf(v).Seconds()))
	for _, use := range report.Uses() {
		row = append(row, decimals(v.Time[use.On]))
	}
	if len(v.Costs) > 0 { // no one number
		row = append(row, "", "several")
	} else {
		row = append(row, strconv.FormatFloat(v.Cost, 'f', 4, 64), v.Currency)
	}
	for _, name := range all.metrics {
		value := ""
		if point, is := v.Metrics[name]; is {
			value = numberText(point.Value)
		}
		row = append(row, value)
	}
	return row
}

// decimals is a number of seconds.
func decimals(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 3, 64) }

// tookOf is how long a run has taken so far, from its submission on.
func tookOf(v *runview.View) time.Duration {
	if v.Ended != nil {
		return v.Ended.Sub(v.Created)
	}
	return time.Since(v.Created)
}
