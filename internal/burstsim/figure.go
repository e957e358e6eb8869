package burstsim

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/bee-hpc/bee/internal/core"
)

// Figure is a diagram of lines over the number of nodes.
type Figure struct {
	Name   string   `json:"name"` // part of file names
	Title  string   `json:"title"`
	X      string   `json:"x"` // what the axes show, with units
	Y      string   `json:"y"`
	Series []Series `json:"series"`
}

// Series is one line of a figure. A value that there is not is NaN.
type Series struct {
	Label string
	X, Y  []float64
}

// MarshalJSON writes the points as pairs, without those that have no value.
func (s Series) MarshalJSON() ([]byte, error) {
	points := [][2]json.Number{}
	for i, x := range s.X {
		if !math.IsNaN(s.Y[i]) {
			points = append(points, [2]json.Number{json.Number(plain(x)), json.Number(plain(s.Y[i]))})
		}
	}
	return json.Marshal(map[string]any{"label": s.Label, "points": points})
}

// JSON returns the figure as an indented document.
func (f *Figure) JSON() ([]byte, error) {
	raw, err := json.MarshalIndent(f, "", "  ")
	return append(raw, '\n'), err
}

// CSV returns one row for each number of nodes, and one column for each line.
func (f *Figure) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	head := []string{f.X}
	for _, s := range f.Series {
		head = append(head, s.Label)
	}
	w.Write(head)
	for i, x := range f.Series[0].X {
		cells := []string{plain(x)}
		for _, s := range f.Series {
			cell := ""
			if !math.IsNaN(s.Y[i]) {
				cell = plain(s.Y[i])
			}
			cells = append(cells, cell)
		}
		w.Write(cells)
	}
	w.Flush()
	return b.Bytes()
}

// Figures computes the four figures of the published study: throughput with and without
// the buffer, throughput by hit rate, the most that network and line can give, and cost.
// Nodes that the sweep does not vary are 1 to 20; hit rates have values of the model. Errors are of
// the kind Invalid, or the stop function's.
func (s *Sweep) Figures(seed int64, stop func() error) ([]*Figure, error) {
	hits := s.Model.hits
	for name, all := range map[string]string{"nodes": "1..20", hits: s.Model.hitRates} {
		if len(s.Of(name)) > 1 {
			continue
		}
		for i := range s.Model.Settings {
			if x := &s.Model.Settings[i]; x.Name == name {
				values, err := x.Values(all)
				if err != nil {
					return nil, err
				}
				s = s.Replace(name, values...)
			}
		}
	}
	for _, v := range s.Varied() {
		if v.Name != "nodes" && v.Name != hits {
			return nil, &core.Error{Kind: core.Invalid, Op: "draw figures of", Object: v.Name, Err: errors.New("it has several values"), Remedy: fmt.Sprintf("Give it one value: figures vary nodes and %s.", hits)}
		}
	}
	t, err := s.Run(seed, stop)
	if err != nil {
		return nil, err
	}
	// line is a result over the nodes, with one value of the hit rate.
	line := func(label, result string, hit, scale float64) Series {
		l := Series{Label: label}
		for i, r := range t.Rows {
			if r.Point[hits] == hit {
				l.X, l.Y = append(l.X, r.Point["nodes"]), append(l.Y, t.Result(i, result)/scale)
			}
		}
		return l
	}
	const rate, cost, nodes = "throughput, MB/s", "cost, $", "compute nodes"
	values := s.Of(hits)
	first, last := values[0], values[len(values)-1]
	label := func(hit float64) string { return s.Model.hitLabel + " " + Text(Share, hit) }
	direct := line("direct", "direct_bytes_per_second", first, 1e6)
	limit := line("line", "network_bytes_per_second", first, 1e6)
	for i := range limit.Y {
		limit.Y[i] = s.Of("line")[0] / 1e6
	}
	figures := []*Figure{
		{"buffer", "I/O with and without the buffer", nodes, rate, []Series{direct, line("buffered, "+label(last), "buffered_bytes_per_second", last, 1e6)}},
		{"hits", "I/O with the buffer", nodes, rate, []Series{direct}},
		{"limits", "Most that local network and line can give", nodes, rate, []Series{line("local network", "network_bytes_per_second", first, 1e6), limit}},
		{"cost", "Cost", nodes, cost, []Series{line("direct", "direct_cost", first, 1)}},
	}
	for _, hit := range values {
		figures[1].Series = append(figures[1].Series, line(label(hit), "buffered_bytes_per_second", hit, 1e6))
		figures[3].Series = append(figures[3].Series, line(label(hit), "buffered_cost", hit, 1))
	}
	return figures, nil
}
