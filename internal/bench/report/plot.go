package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

const (
	plotLabel = 300 // width of labels
	plotWidth = 860
	plotRow   = 24
)

// ratios draws the primary contrasts: estimate, 90 % and 95 % intervals, and the margin.
func (r *Report) ratios(b *strings.Builder) {
	reach := math.Log1p(r.Plan.Margin) * 1.6
	var rows []int
	for i := range r.Result.Contrasts {
		c := &r.Result.Contrasts[i]
		if !c.Primary || c.Finding.Blocks == 0 {
			continue
		}
		rows = append(rows, i)
		for _, v := range []float64{c.Finding.NinetyFive.Low, c.Finding.NinetyFive.High, c.Finding.Estimate} {
			if !math.IsInf(v, 0) {
				reach = math.Max(reach, math.Abs(v)*1.05)
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	rows, others := few(rows, mostDrawn)
	height := plotRow*len(rows) + 40
	x := func(l float64) float64 {
		l = math.Max(-reach, math.Min(reach, l))
		return plotLabel + (l+reach)/(2*reach)*(plotWidth-plotLabel-10)
	}
	fmt.Fprintf(b, "<h2>Ratios</h2>\n<p>Each line is the 95 %% interval of the ratio to %s, the thick part the 90 %% interval, right is worse. The band is the margin of %s %%.</p>\n"+
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"ratios\">\n", html.EscapeString(r.Plan.Baseline), number(100*r.Plan.Margin), plotWidth, height)
	band := stats.Band(r.Plan.Margin)
	fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\" fill=\"var(--band)\"/>\n", x(band.Low), x(band.High)-x(band.Low), height-30)
	fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\" stroke=\"var(--line)\"/>\n", x(0), x(0), height-30)
	for n, i := range rows {
		c := &r.Result.Contrasts[i]
		f, y := &c.Finding, float64(plotRow*n)+plotRow/2
		fmt.Fprintf(b, "<text x=\"0\" y=\"%.1f\">%s</text>\n", y+4, html.EscapeString(clip(c.Environment+": "+what(c), 42)))
		fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"var(--mark)\" stroke-width=\"1.5\"/>\n", x(f.NinetyFive.Low), x(f.NinetyFive.High), y, y)
		fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"var(--mark)\" stroke-width=\"5\"/>\n", x(f.Ninety.Low), x(f.Ninety.High), y, y)
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"var(--ink)\"/>\n", x(f.Estimate), y)
	}
	for _, l := range []float64{-reach, band.Low, 0, band.High, reach} {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.2f</text>\n", x(l), height-10, math.Exp(l))
	}
	b.WriteString("</svg>\n" + others)
}

// time draws the values of primary metrics in the order of time, so that drift is seen.
func (r *Report) time(b *strings.Builder) {
	primary := map[string]bool{}
	for _, m := range r.Plan.Metrics {
		primary[m.Name] = m.Primary && !m.Sweep
	}
	var series []evaluate.Values
	for _, v := range r.Result.Values {
		if primary[v.Metric] && len(v.Figures) > 1 {
			series = append(series, v)
		}
	}
	series, others := few(series, mostDrawn)
	var plots strings.Builder
	for _, v := range series {
		name := v.Environment + ": " + v.Metric
		if v.Point != "" {
			name += ", " + v.Point
		}
		fmt.Fprintf(&plots, "<tr><td>%s</td><td class=\"n\">%s %s</td><td>%s</td></tr>\n", html.EscapeString(name), number(v.Median), html.EscapeString(r.unit(v.Metric)), strip(v.Figures))
	}
	var yard []float64
	for i := range r.Rows {
		if y := r.Rows[i].YardstickSeconds; y > 0 {
			yard = append(yard, y)
		}
	}
	if len(yard) > 1 {
		fmt.Fprintf(&plots, "<tr><td>the machine itself: a fixed piece of arithmetic</td><td class=\"n\">%s s</td><td>%s</td></tr>\n", number(stats.Median(yard)), strip(yard))
	}
	if plots.Len() > 0 {
		fmt.Fprintf(b, "<h2>Values in the order of time</h2>\n<table><tr><th>figure</th><th>median</th><th>each value by the median, from 0.8 to 1.25</th></tr>\n%s</table>\n%s", plots.String(), others)
	}
}

// strip is a small plot of values by their median. Of many, some are drawn, evenly chosen.
func strip(values []float64) string {
	const width, height = 320, 40
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"values\"><line x1=\"0\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"var(--line)\"/>", width, height, width, height, width, height/2, height/2)
	middle, all := stats.Median(values), len(values)
	drawn := min(all, mostValues)
	b.WriteString("<path d=\"")
	for i := range drawn {
		v := values[i*all/drawn]
		l := math.Max(-1, math.Min(1, math.Log(v/middle)/math.Log(1.25)))
		if math.IsNaN(l) {
			continue
		}
		fmt.Fprintf(&b, "M%.1f %.1fh.01", 4+float64(i)*(width-8)/float64(max(1, drawn-1)), height/2-l*(height/2-4)) // a dot
	}
	b.WriteString("\" stroke=\"var(--mark)\" stroke-width=\"5\" stroke-linecap=\"round\"/></svg>")
	return b.String()
}

func clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
