package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"strings"
)

type scalingRow struct{ what, environment, speedup, efficiency string }

func (r *Report) scalingRows() []scalingRow {
	var rows []scalingRow
	for i := range r.Result.Scaling {
		s := &r.Result.Scaling[i]
		row := scalingRow{what: fmt.Sprintf("%s, %s against %s", s.Metric, s.Point, s.Against), environment: s.Environment, efficiency: "–"}
		// Worse is positive in a finding, and better is above 1 in a speedup.
		row.speedup = fmt.Sprintf("%.2f (%s to %s)", s.Speedup, factor(-s.Finding.NinetyFive.High), factor(-s.Finding.NinetyFive.Low))
		if s.Efficiency != nil {
			row.efficiency = fmt.Sprintf("%.0f %%", 100**s.Efficiency)
		}
		rows = append(rows, row)
	}
	return rows
}

func factor(l float64) string {
	if math.IsInf(l, 0) {
		return "?"
	}
	return fmt.Sprintf("%.2f", math.Exp(l))
}

func (r *Report) scaling(b *strings.Builder) {
	rows, others := few(r.scalingRows(), mostRows)
	if len(rows) == 0 {
		return
	}
	e := html.EscapeString
	b.WriteString("<h2>Scaling</h2>\n<p>Each figure at one value of a variable against that at another, with the 95 % interval.</p>\n<table><tr><th>figure</th><th>environment</th><th>speedup</th><th>efficiency</th></tr>\n")
	for _, s := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n", e(s.what), e(s.environment), s.speedup, s.efficiency)
	}
	b.WriteString("</table>\n" + others)
}

type publishedRow struct{ what, environment, value, baseline, change string }

func (r *Report) summary() string { return cmp.Or(r.Plan.Summary, "mean") }

func (r *Report) publishedRows() []publishedRow {
	var rows []publishedRow
	for i := range r.Result.Contrasts {
		c := &r.Result.Contrasts[i]
		if f := c.Published; f != nil {
			rows = append(rows, publishedRow{what(c), c.Environment, number(f.Environment) + " " + c.Unit, number(f.Baseline) + " " + c.Unit, fmt.Sprintf("%+.1f %%", 100*f.Change)})
		}
	}
	return rows
}

func (r *Report) published(b *strings.Builder) {
	rows, others := few(r.publishedRows(), mostRows)
	if len(rows) == 0 {
		return
	}
	e := html.EscapeString
	fmt.Fprintf(b, "<h2>The %s of each, as in the paper</h2>\n<p>One figure of all runs has no test and cannot distinguish a difference from chance: the verdicts above are those of the same rows by the robust method.</p>\n"+
		"<table><tr><th>figure</th><th>environment</th><th>value</th><th>baseline</th><th>change</th></tr>\n", e(r.summary()))
	for _, s := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n", e(s.what), e(s.environment), e(s.value), e(s.baseline), s.change)
	}
	b.WriteString("</table>\n" + others)
}
