package burstsim

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Table has a row for each point of a sweep.
type Table struct {
	Sweep *Sweep
	Rows  []Row
}

// Row is what a model computed for a point.
type Row struct {
	Point   Point
	Results []float64 // in the order of the model's columns
}

// Run computes all points, several at a time. The same sweep and seed give the same
// table. Errors are of the kind Invalid, or the stop function's: it is asked now and then.
func (s *Sweep) Run(seed int64, stop func() error) (*Table, error) {
	t := &Table{Sweep: s}
	for _, p := range s.Points() {
		t.Rows = append(t.Rows, Row{Point: p})
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	errs := make([]error, len(t.Rows))
	var failed atomic.Bool
	for i := range t.Rows {
		group.Go(func() error {
			if failed.Load() {
				return nil
			}
			t.Rows[i].Results, errs[i] = s.Model.compute(t.Rows[i].Point, seed, stop)
			if errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Result returns the result of a row by its column's name, NaN if there is none.
func (t *Table) Result(row int, name string) float64 {
	for i, c := range t.Sweep.Model.Columns {
		if c.Name == name {
			return t.Rows[row].Results[i]
		}
	}
	return math.NaN()
}

// Text returns heads and cells for people: the settings that vary, and all results.
func (t *Table) Text() (heads []string, rows [][]string) {
	varied := t.Sweep.Varied()
	for _, s := range varied {
		heads = append(heads, s.Name)
	}
	for _, c := range t.Sweep.Model.Columns {
		heads = append(heads, c.Head)
	}
	for _, r := range t.Rows {
		var cells []string
		for _, s := range varied {
			cells = append(cells, s.Text(r.Point[s.Name]))
		}
		for i, c := range t.Sweep.Model.Columns {
			if math.IsNaN(r.Results[i]) {
				cells = append(cells, "-")
			} else {
				cells = append(cells, Text(c.Unit, r.Results[i]))
			}
		}
		rows = append(rows, cells)
	}
	return heads, rows
}

// CSV returns the table as comma-separated values: all settings, then all results.
// Numbers are in bytes, bytes a second, seconds, dollars, and parts of one. A result
// without a value is empty.
func (t *Table) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	head := t.Sweep.Model.names()
	for _, c := range t.Sweep.Model.Columns {
		head = append(head, c.Name)
	}
	w.Write(head)
	for _, r := range t.Rows {
		var cells []string
		for i := range t.Sweep.Model.Settings {
			cells = append(cells, t.Sweep.Model.Settings[i].plain(r.Point))
		}
		for _, v := range r.Results {
			if math.IsNaN(v) {
				cells = append(cells, "")
			} else {
				cells = append(cells, plain(v))
			}
		}
		w.Write(cells)
	}
	w.Flush()
	return b.Bytes()
}

func (s *Setting) plain(p Point) string {
	if s.Unit == Word {
		return s.Words[int(p[s.Name])]
	}
	return plain(p[s.Name])
}

// plain has ten digits: more than any machine can repeat would differ between processors.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', 10, 64) }

// MarshalJSON writes the model's name and one object for each row.
func (t *Table) MarshalJSON() ([]byte, error) {
	var rows []map[string]any
	for _, r := range t.Rows {
		row := map[string]any{}
		for i := range t.Sweep.Model.Settings {
			s := &t.Sweep.Model.Settings[i]
			if s.Unit == Word {
				row[s.Name] = s.plain(r.Point)
			} else {
				row[s.Name] = json.Number(plain(r.Point[s.Name]))
			}
		}
		for i, c := range t.Sweep.Model.Columns {
			if !math.IsNaN(r.Results[i]) {
				row[c.Name] = json.Number(plain(r.Results[i]))
			}
		}
		rows = append(rows, row)
	}
	return json.Marshal(map[string]any{"model": t.Sweep.Model.Name, "rows": rows})
}
