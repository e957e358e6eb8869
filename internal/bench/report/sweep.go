package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a plot of a sweep, and of what is drawn.
const (
	sweepHeight = 320
	sweepLeft   = 70
	mostLines   = 12
	mostSweeps  = 24
)

// A line is the medians of an environment by the keys of a table.
type line struct {
	environment string
	x, y        []float64
}

// dashes distinguish lines without colours.
func dashes() []string { return []string{"", "8 3", "2 3", "8 3 2 3", "1 5", "12 4"} }

// sweeps draws each metric that has a figure for each row of a table, by logarithms.
func (r *Report) sweeps(b *strings.Builder) {
	drawn := 0
	for _, p := range r.Plan.Points {
		for _, m := range r.Plan.Metrics {
			if !m.Sweep || drawn == mostSweeps {
				continue
			}
			lines := r.lines(p.ID, m.Name)
			if len(lines) == 0 {
				continue
			}
			if drawn++; drawn == 1 {
				b.WriteString("<h2>Sweeps</h2>\n<p>Medians, by logarithms.</p>\n")
			}
			title := m.Name
			if m.Unit != "" {
				title += " in " + m.Unit
			}
			if p.ID != "" {
				title += ", " + p.ID
			}
			sweep(b, title, lines)
		}
	}
}

func (r *Report) lines(point, metric string) []line {
	var all []line
	for _, v := range r.Result.Values {
		if v.Point != point || v.Metric != metric {
			continue
		}
		key, err := strconv.ParseFloat(v.Key, 64)
		if err != nil || key <= 0 || v.Median <= 0 {
			continue
		}
		i := slices.IndexFunc(all, func(l line) bool { return l.environment == v.Environment })
		if i < 0 && len(all) < mostLines {
			i, all = len(all), append(all, line{environment: v.Environment})
		}
		if i >= 0 {
			all[i].x, all[i].y = append(all[i].x, math.Log(key)), append(all[i].y, math.Log(v.Median))
		}
	}
	return all
}

func sweep(b *strings.Builder, title string, lines []line) {
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, l := range lines {
		for i, values := range [][]float64{l.x, l.y} {
			low[i], high[i] = min(low[i], slices.Min(values)), max(high[i], slices.Max(values))
		}
	}
	place := func(axis int, v, from, to float64) float64 {
		if high[axis] == low[axis] {
			return (from + to) / 2
		}
		return from + (v-low[axis])/(high[axis]-low[axis])*(to-from)
	}
	x := func(v float64) float64 { return place(0, v, sweepLeft, plotWidth-150) }
	y := func(v float64) float64 { return place(1, v, sweepHeight-40, 20) }
	fmt.Fprintf(b, "<h3>%s</h3>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", html.EscapeString(title), plotWidth, sweepHeight, html.EscapeString(title))
	fmt.Fprintf(b, "<path d=\"M%d 10V%dH%d\" fill=\"none\" stroke=\"var(--line)\"/>\n", sweepLeft-8, sweepHeight-30, plotWidth-140)
	for _, v := range []float64{low[0], high[0]} {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x(v), sweepHeight-10, number(round(math.Exp(v))))
	}
	for _, v := range []float64{low[1], high[1]} {
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", sweepLeft-12, y(v)+4, number(round(math.Exp(v))))
	}
	for n, l := range lines {
		points := make([]string, len(l.x))
		for i := range l.x {
			points[i] = fmt.Sprintf("%.1f,%.1f", x(l.x[i]), y(l.y[i]))
		}
		dash := dashes()[n%len(dashes())]
		fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"var(--mark)\" stroke-width=\"1.5\" stroke-dasharray=\"%s\"/>\n", strings.Join(points, " "), dash)
		at := 20 + 20*n
		fmt.Fprintf(b, "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"var(--mark)\" stroke-width=\"1.5\" stroke-dasharray=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
			plotWidth-130, plotWidth-100, at, at, dash, plotWidth-92, at+4, html.EscapeString(clip(l.environment, 14)))
	}
	b.WriteString("</svg>\n")
}

// round has four significant digits.
func round(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return r
}
