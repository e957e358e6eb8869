package report

import (
	"cmp"
	"slices"

	"github.com/bee-hpc/bee/internal/state"
)

// Case is a case of an array, as grids and plots show one.
type Case struct {
	// ID is that of its run.
	ID     string
	State  state.RunState
	Values map[string]string
	// Metrics are the newest values of its metrics.
	Metrics map[string]float64
}

// Axes are what a grid is made by: the parameters across and down, and a metric. An empty
// one is not used.
type Axes struct{ Across, Down, Metric string }

// Bounds of a grid, whatever the number of cases.
const (
	MostColumns = 40
	MostRows    = 250
)

// Grid is the cases of an array by the values of two parameters.
type Grid struct {
	Axes
	Columns []string
	Rows    []GridRow
	// MoreColumns and MoreRows are how many values have no place in the grid.
	MoreColumns, MoreRows int
	// Least and Largest bound the metric in the cells.
	Least, Largest float64
}

// GridRow is the cells of a value of the parameter that goes down.
type GridRow struct {
	Value string
	Cells []Cell
}

// Cell is the cases with the same two values.
type Cell struct {
	Cases int
	// Run is the run of its only case; "": there are none, or several.
	Run    string
	States map[state.RunState]int
	// Mean is that of the metric over the cases that have it, Known.
	Mean  float64
	Known int
}

// Mark is a state in a grid: its letter, and the name of its colour.
type Mark struct {
	State         state.RunState
	Letter, Class string
}

// Marks are those of all states. Where the cases of a cell differ, the first of these counts.
func Marks() []Mark {
	return []Mark{
		{state.Failed, "F", "failed"},
		{state.Stopped, "X", "stopped"},
		{state.SetAside, "A", "aside"},
		{state.Suspended, "P", "suspended"},
		{state.Running, "R", "running"},
		{state.Queued, "Q", "queued"},
		{state.Succeeded, "S", "succeeded"},
	}
}

// Mark returns the mark of a cell and how many of its cases have that state.
func (c Cell) Mark() (Mark, int) {
	for _, m := range Marks() {
		if n := c.States[m.State]; n > 0 {
			return m, n
		}
	}
	return Mark{Letter: "?", Class: "queued"}, c.Cases // a state of a newer version
}

// Level is the place of a cell's metric between the least and the largest, from 1 to 5.
func (g *Grid) Level(c Cell) int {
	height := g.Largest/2 - g.Least/2 // halves, as the difference of huge values is infinite
	if height <= 0 {
		return 3
	}
	return 1 + min(4, int(5*((c.Mean/2-g.Least/2)/height)))
}

// DefaultAxes are the first parameters and the first metric by name. Parameters with several
// values go before those with one.
func DefaultAxes(cases []Case) Axes {
	values, metrics := map[string]map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		for name, v := range c.Values {
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][v] = true
		}
		for name := range c.Metrics {
			metrics[name] = true
		}
	}
	names := sorted(values, func(a, b string) int {
		return cmp.Or(cmp.Compare(min(len(values[b]), 2), min(len(values[a]), 2)), cmp.Compare(a, b))
	})
	var axes Axes
	if len(names) > 0 {
		axes.Across = names[0]
	}
	if len(names) > 1 {
		axes.Down = names[1]
	}
	if all := sorted(metrics, cmp.Compare[string]); len(all) > 0 {
		axes.Metric = all[0]
	}
	return axes
}

// NewGrid returns the grid of cases.
func NewGrid(cases []Case, by Axes) Grid {
	g := Grid{Axes: by}
	var rows []string
	g.Columns, g.MoreColumns = valuesOf(cases, by.Across, MostColumns)
	rows, g.MoreRows = valuesOf(cases, by.Down, MostRows)
	columnAt, rowAt := places(g.Columns), places(rows)
	for _, value := range rows {
		g.Rows = append(g.Rows, GridRow{Value: value, Cells: make([]Cell, len(g.Columns))})
	}
	for _, c := range cases {
		column, is := columnAt[c.Values[by.Across]]
		row, also := rowAt[c.Values[by.Down]]
		if is && also {
			g.Rows[row].Cells[column].add(c, by.Metric)
		}
	}
	g.bound()
	return g
}

func (c *Cell) add(one Case, metric string) {
	if c.States == nil {
		c.States = map[state.RunState]int{}
	}
	if c.Cases++; c.Cases == 1 {
		c.Run = one.ID
	} else {
		c.Run = ""
	}
	c.States[one.State]++
	if v, is := one.Metrics[metric]; is {
		c.Known++
		n := float64(c.Known)
		c.Mean = c.Mean*((n-1)/n) + v/n // no sum, which could be infinite
	}
}

// bound sets the least and the largest mean.
func (g *Grid) bound() {
	first := true
	for _, row := range g.Rows {
		for _, c := range row.Cells {
			switch {
			case c.Known == 0:
			case first:
				g.Least, g.Largest, first = c.Mean, c.Mean, false
			default:
				g.Least, g.Largest = min(g.Least, c.Mean), max(g.Largest, c.Mean)
			}
		}
	}
}

// valuesOf returns the values of a parameter in their order, at most so many, and how many
// more there are. Without a parameter, all cases have one value.
func valuesOf(cases []Case, name string, most int) ([]string, int) {
	if name == "" {
		return []string{""}, 0
	}
	all := map[string]bool{}
	for _, c := range cases {
		if v, is := c.Values[name]; is {
			all[v] = true
		}
	}
	list := sorted(all, compareValues)
	n := min(len(list), most)
	return list[:n], len(list) - n
}

// compareValues puts numbers in their order, before texts.
func compareValues(a, b string) int {
	x, isX := number(a)
	y, isY := number(b)
	switch {
	case isX && isY:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	case isX:
		return -1
	case isY:
		return 1
	}
	return cmp.Compare(a, b)
}

func sorted[V any](of map[string]V, by func(a, b string) int) []string {
	list := make([]string, 0, len(of))
	for name := range of {
		list = append(list, name)
	}
	slices.SortFunc(list, by)
	return list
}

func places(values []string) map[string]int {
	at := make(map[string]int, len(values))
	for i, v := range values {
		at[v] = i
	}
	return at
}
