package page

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
)

func arrayOf(name string, cases []report.Case, by report.Axes) *Array {
	return &Array{
		ID: name, Name: name, State: name, Meaning: "1 case.", Grid: report.NewGrid(cases, by), Plot: report.NewPlot(cases, by.Across, by.Metric),
		Version: name, Made: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// TestNoTextOfACaseIsMarkup: names and values of parameters and metrics are shown, and nothing else.
func TestNoTextOfACaseIsMarkup(t *testing.T) {
	var cases []report.Case
	for _, value := range []string{evil, "1"} {
		for _, other := range []string{evil + "2", "2", "3", "4", "5"} {
			cases = append(cases, report.Case{State: state.RunState(evil), Values: map[string]string{evil: value, "other" + evil: other}, Metrics: map[string]float64{evil: 1}})
		}
	}
	var b strings.Builder
	if err := arrayOf(evil, cases, report.Axes{Across: evil, Down: "other" + evil, Metric: evil}).HTML(&b); err != nil {
		t.Fatal(err)
	}
	checkMarkup(t, b.String())
}

// TestPageOfAnArray: each cell has a letter beside its colour, and a metric its level.
func TestPageOfAnArray(t *testing.T) {
	var cases []report.Case
	for i, s := range []state.RunState{state.Succeeded, state.Failed, state.Running, state.Queued} {
		cases = append(cases, report.Case{State: s, Values: map[string]string{"t": []string{"300", "310"}[i%2], "seed": []string{"1", "2"}[i/2]}})
	}
	cases[0].Metrics, cases[1].Metrics = map[string]float64{"energy": -7}, map[string]float64{"energy": 13}
	var b strings.Builder
	array := arrayOf("model", cases, report.Axes{Across: "t", Down: "seed", Metric: "energy"})
	array.Time, array.Leases = []Use{{On: report.OnCompute, Text: "computing", Took: "3.0s", Seconds: 3}, {On: report.OnQueue, Text: "waiting for hosts", Took: "1.0s", Seconds: 1}}, 2
	if err := array.HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<td class="succeeded" title="succeeded">S</td><td class="failed" title="failed">F</td>`, `<td class="running" title="running">R</td><td class="queued" title="queued">Q</td>`,
		`<td class="l1" title="-7, level 1">-7 (1)</td><td class="l5" title="13, level 5">13 (5)</td>`,
		`<circle cx="2.00%" cy="96.00%" r="3"/><circle cx="98.00%" cy="4.00%" r="3"/>`, "2 of 2 cases",
		`<td class="n">3.0s</td><td class="n">75 %</td>`, `<td class="n">1.0s</td><td class="n">25 %</td>`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
}
