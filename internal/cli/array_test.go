package cli

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestShowOfAnArray: its state, or a row for each of its cases, with the values.
func TestShowOfAnArray(t *testing.T) {
	var runs []state.Run
	for i, values := range []spec.Case{{"t": "300", "title": "a, \"b\""}, {"t": "310", "title": "x\x1b[2J"}} {
		r := runrecords.Succeeded(t, runrecords.PiBeefile, func(s *submission.Submission) {
			s.Array = &submission.ArrayCase{ID: "dddd4444", Name: "model", Number: i + 1, Of: 2, Values: values}
		})
		r.ID, r.Name, r.Case = fmt.Sprintf("aaaa111%d", i+1), fmt.Sprintf("model.%d", i+1), state.Case{Array: "dddd4444", Name: "model", Number: i + 1}
		r.Ended = time.Now().Add(time.Minute)
		runs = append(runs, r)
	}
	runs[1].State, runs[1].Kind, runs[1].Message = state.Failed, core.Transient.String(), "the site was lost"
	d := newDesk(t, append(runs, state.Run{ID: "bbbb2222", Name: "md", State: state.Running})...)
	at := state.Attempt{Run: "aaaa1112", N: 1, Site: "lab", State: state.Closed, Started: time.Now()}
	if err := d.store.PutAttempt(t.Context(), at, false); err != nil {
		t.Fatal(err)
	}
	if err := d.bee("show", "--csv", "model"); err != nil || strings.Contains(d.out.String(), "\x1b") {
		t.Fatalf("%v: %q", err, d.out.String())
	}
	table, err := csv.NewReader(&d.out).ReadAll()
	if err != nil || len(table) != 3 {
		t.Fatalf("%v: %q", err, table)
	}
	cell := func(row int, column string) string { return table[row][slices.Index(table[0], column)] }
	for column, want := range map[string][2]string{
		"case": {"1", "2"}, "run": {"aaaa1111", "aaaa1112"}, "name": {"model.1", "model.2"}, "case.t": {"300", "310"}, "case.title": {"a, \"b\"", `x\x1b[2J`},
		"state": {"succeeded", "failed"}, "error": {"", "transient"}, "site": {"", "lab"}, "attempts": {"0", "1"}, "cost": {"0.0000", "0.0000"}, "currency": {"", ""},
	} {
		if got := [2]string{cell(1, column), cell(2, column)}; got != want {
			t.Errorf("%s: %q, want %q", column, got, want)
		}
	}
	if seconds, err := strconv.ParseFloat(cell(1, "seconds"), 64); err != nil || seconds < 30 || cell(1, "time.waiting") != cell(1, "seconds") {
		t.Errorf("%v: of %s seconds it waited %s", err, cell(1, "seconds"), cell(1, "time.waiting"))
	}
	if err := d.bee("show", "model"); err != nil || !strings.Contains(d.out.String(), "cases      2 of 2 cases over, 1 failed\n") {
		t.Errorf("%v: %s", err, d.out.String())
	}
	var v runview.Array
	if err := d.bee("show", "--json", "dddd4444"); err != nil || json.Unmarshal(d.out.Bytes(), &v) != nil || v.Cases != 2 || v.States[state.Failed] != 1 || v.State != state.Failed {
		t.Errorf("%v: %s", err, d.out.String())
	}
	for _, line := range []string{"show --csv md", "show --beefile model", "show --csv --json model"} {
		if err := d.bee(strings.Fields(line)...); console.CodeOf(err) != console.ExitInvalid {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestLogsOfFailedCases shows only those that have ended without success.
func TestLogsOfFailedCases(t *testing.T) {
	of := func(n int) state.Case { return state.Case{Array: "dddd4444", Name: "model", Number: n} }
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "model.1", State: state.Succeeded, Case: of(1)}, state.Run{ID: "bbbb1111", Name: "model.2", State: state.Failed, Case: of(2)}, state.Run{ID: "cccc1111", Name: "model.3", State: state.Running, Case: of(3)})
	if err := d.bee("logs", "--failed", "model"); err != nil || !strings.Contains(d.err.String(), "bbbb1111") || strings.Contains(d.err.String(), "aaaa1111") || strings.Contains(d.err.String(), "cccc1111") {
		t.Errorf("%v: %s", err, d.err.String())
	}
}

// TestMoveOfAnArray asks its cases that run, and with sites those that wait.
func TestMoveOfAnArray(t *testing.T) {
	of := func(n int) state.Case { return state.Case{Array: "dddd4444", Name: "model", Number: n} }
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "model.1", State: state.Succeeded, Case: of(1)}, state.Run{ID: "bbbb1111", Name: "model.2", State: state.Queued, Case: of(2)})
	if err := d.bee("move", "model"); console.CodeOf(err) != console.CodeOfKind(core.NotFound) {
		t.Errorf("no case runs: %v", err)
	}
	run := state.Run{ID: "cccc1111", Name: "model.3", State: state.Running, Case: of(3), Submission: []byte("{}")}
	if err := d.store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := d.bee("move", "--json", "model"); err == nil || !strings.Contains(d.out.String(), "cccc1111") || strings.Contains(d.out.String(), "bbbb1111") {
		t.Errorf("%v: %s", err, d.out.String())
	}
}

// TestRemovalOfACaseThatSharesALease is refused while it is not over, as the others have its hosts.
func TestRemovalOfACaseThatSharesALease(t *testing.T) {
	of := func(n int) state.Case {
		return state.Case{Array: "dddd4444", Name: "model", Number: n, Pack: "cccc1111"}
	}
	d := newDesk(t, state.Run{ID: "cccc1111", Name: "model.packs.1", State: state.Running, Case: state.Case{Array: "dddd4444.packs", Name: "model.packs", Number: 1}},
		state.Run{ID: "aaaa1111", Name: "model.1", State: state.Succeeded, Case: of(1)}, state.Run{ID: "bbbb1111", Name: "model.2", State: state.Running, Case: of(2)})
	if err := d.bee("rm", "--force", "aaaa1111", "bbbb1111"); err == nil {
		t.Error("it was removed")
	}
	for id, there := range map[string]bool{"aaaa1111": false, "bbbb1111": true} {
		if _, err := d.store.Run(t.Context(), id); core.IsKind(err, core.NotFound) == there {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestReportOfAnArray: the page and the table have the same values, states and metrics.
func TestReportOfAnArray(t *testing.T) {
	var runs []state.Run
	for i, temperature := range []string{"300", "310"} {
		r := runrecords.Succeeded(t, runrecords.PiBeefile, func(s *submission.Submission) {
			s.Array = &submission.ArrayCase{ID: "dddd4444", Name: "model", Number: i + 1, Of: 2, Values: spec.Case{"t": temperature}}
			s.Job.Metrics = map[string]string{"energy": `E = (\S+)`}
		})
		r.ID, r.Name, r.Case = fmt.Sprintf("aaaa111%d", i+1), fmt.Sprintf("model.%d", i+1), state.Case{Array: "dddd4444", Name: "model", Number: i + 1}
		runs = append(runs, r)
	}
	d := newDesk(t, append(runs, state.Run{ID: "bbbb2222", Name: "md", State: state.Running})...)
	var all measure.Record
	all.Add(1, 1, time.Now(), measure.Values{Metrics: map[string]float64{"energy": -7.5}})
	dir := d.store.RunDir("aaaa1112")
	if err := errors.Join(os.MkdirAll(dir, 0o700), state.WriteMeasured(dir, &all)); err != nil {
		t.Fatal(err)
	}
	if err := d.bee("report", "model"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<td class="succeeded"`, `<th scope="col">310</th>`, "-7.5 (3)", "<circle "} {
		if !strings.Contains(d.out.String(), want) {
			t.Errorf("want %q in\n%s", want, d.out.String())
		}
	}
	if err := d.bee("show", "--csv", "model"); err != nil || !strings.Contains(d.out.String(), ",metric.energy\n") || !strings.Contains(d.out.String(), ",-7.5\n") {
		t.Errorf("%v: %s", err, d.out.String())
	}
	if err := d.bee("report", "--markdown", "model"); err != nil || !strings.Contains(d.out.String(), "2 of 2") || !strings.Contains(d.out.String(), "aaaa1112") {
		t.Errorf("%v: %s", err, d.out.String())
	}
	for _, line := range []string{"report --by nosuch model", "report --by t,nosuch model", "report --metric nosuch model", "report --by t md"} {
		if err := d.bee(strings.Fields(line)...); console.CodeOf(err) != console.ExitInvalid {
			t.Errorf("%s: %v", line, err)
		}
	}
}
