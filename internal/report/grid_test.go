package report

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/state"
)

func gridCase(t, seed string, s state.RunState, energy float64) Case {
	return Case{State: s, Values: map[string]string{"t": t, "seed": seed, "fixed": "1"}, Metrics: map[string]float64{"e": energy}}
}

// TestGrid: numbers are in their order, a failed case marks its cell, and a metric is the mean.
func TestGrid(t *testing.T) {
	cases := []Case{
		gridCase("300", "10", state.Succeeded, 1), gridCase("300", "9", state.Running, 3), gridCase("40", "9", state.Queued, 11),
		gridCase("300", "9", state.Failed, 5),
		{State: state.Queued}, // the record of another version has no values
	}
	axes := DefaultAxes(cases)
	if want := (Axes{Across: "seed", Down: "t", Metric: "e"}); axes != want {
		t.Fatalf("%+v, want %+v", axes, want)
	}
	g := NewGrid(cases, axes)
	if !slices.Equal(g.Columns, []string{"9", "10"}) || len(g.Rows) != 2 || g.Rows[0].Value != "40" {
		t.Fatalf("%+v", g)
	}
	cell := g.Rows[1].Cells[0]
	if m, n := cell.Mark(); m.Letter != "F" || n != 1 || cell.Cases != 2 || cell.Mean != 4 {
		t.Errorf("%+v: %+v %d", cell, m, n)
	}
	if g.Rows[0].Cells[1].Cases != 0 || g.Least != 1 || g.Largest != 11 || g.Level(g.Rows[0].Cells[0]) != 5 || g.Level(g.Rows[1].Cells[1]) != 1 {
		t.Errorf("%+v", g)
	}
}

// TestGridIsBounded: 100,000 cases have a grid of a fixed size, and a plot of so many dots.
func TestGridIsBounded(t *testing.T) {
	var cases []Case
	for i := range 100_000 {
		cases = append(cases, gridCase(fmt.Sprint(i), fmt.Sprint(i%500), state.Succeeded, float64(i)))
	}
	g := NewGrid(cases, Axes{Across: "t", Down: "seed"})
	if len(g.Columns) != MostColumns || g.MoreColumns != 100_000-MostColumns || len(g.Rows) != MostRows || g.MoreRows != 500-MostRows {
		t.Errorf("%d and %d columns, %d and %d rows", len(g.Columns), g.MoreColumns, len(g.Rows), g.MoreRows)
	}
	if p := NewPlot(cases, "t", "e"); len(p.Dots) > MostDots || len(p.Dots) < MostDots/2 || p.All != 100_000 || p.Largest != 99_999 {
		t.Errorf("%d dots of %d up to %g", len(p.Dots), p.All, p.Largest)
	}
}

// TestExtremeMetrics have finite places.
func TestExtremeMetrics(t *testing.T) {
	cases := []Case{gridCase("1", "1", state.Succeeded, -math.MaxFloat64), gridCase("2", "1", state.Succeeded, math.MaxFloat64), gridCase("nan", "1", state.Succeeded, 1)}
	g := NewGrid(cases, Axes{Across: "t", Metric: "e"})
	if low, high := g.Level(g.Rows[0].Cells[0]), g.Level(g.Rows[0].Cells[1]); low != 1 || high != 5 {
		t.Errorf("%d and %d", low, high)
	}
	if p := NewPlot(cases, "t", "e"); p.All != 2 {
		t.Errorf("%+v", p)
	}
}
