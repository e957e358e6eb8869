package page

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/report"
)

// Array is what a file has about an array: its cases as a grid, and a metric as a plot.
type Array struct {
	ID, Name, State string
	// Meaning is how far it is, in words of BEE's own.
	Meaning string
	Grid    report.Grid
	// Plot has dots where cases have a metric and a parameter that is a number.
	Plot report.Plot
	// Time is what the time of the runs with a lease went to, longest first, and Leases how many
	// these runs are: cases, or their packs.
	Time   []Use
	Leases int
	// Link returns the address of a run; nil: cells have no links.
	Link func(run string) string
	// Version is that of bee, and Made when the page was written.
	Version string
	Made    time.Time
}

// HTML writes the page as one file that fetches nothing.
func (a *Array) HTML(w io.Writer) error {
	var b strings.Builder
	begin(&b, "Array "+a.Name+" ("+a.ID+"): "+a.State, false)
	a.part(&b)
	end(&b, a.Version, a.Made)
	_, err := io.WriteString(w, b.String())
	return err
}

// Part writes the page as a part of another page.
func (a *Array) Part(w io.Writer) error {
	var b strings.Builder
	a.part(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *Array) part(b *strings.Builder) {
	fmt.Fprintf(b, "<h1>Array <bdi>%s</bdi> (<bdi>%s</bdi>)</h1>\n<p class=\"state\"><strong>%s.</strong> %s</p>\n", e(a.Name), e(a.ID), e(a.State), e(a.Meaning))
	b.WriteString("<h2>States of cases</h2>\n<p>A cell with several cases has the letter of one state, and how many of them are in it.</p>\n<ul>\n")
	for _, m := range report.Marks() {
		fmt.Fprintf(b, "<li><span class=\"letter %s\">%s</span> %s</li>\n", m.Class, m.Letter, m.State)
	}
	b.WriteString("</ul>\n")
	a.table(b, "States of cases", func(c report.Cell) (class, text, words string) {
		m, n := c.Mark()
		text, words = m.Letter, string(m.State)
		if c.Cases > 1 {
			text = fmt.Sprintf("%s %d/%d", m.Letter, n, c.Cases)
			words = fmt.Sprintf("%s: %d of %d", m.State, n, c.Cases)
		}
		return m.Class, text, words
	})
	if a.Grid.Metric != "" {
		a.metric(b)
	}
	if len(a.Time) > 0 {
		fmt.Fprintf(b, "<h2>Time</h2>\n<p>Added up over all runs with a lease of their own, %d.</p>\n", a.Leases)
		writeUses(b, a.Time)
	}
}

// metric writes the grid and the plot of the metric.
func (a *Array) metric(b *strings.Builder) {
	name := e(a.Grid.Metric)
	fmt.Fprintf(b, "<h2>Metric <bdi>%s</bdi></h2>\n<p>The newest value of each case, or the mean of several. The levels are 1 (from %.6g) to 5 (to %.6g).</p>\n", name, a.Grid.Least, a.Grid.Largest)
	a.table(b, "Metric "+a.Grid.Metric, func(c report.Cell) (class, text, words string) {
		if c.Known == 0 {
			return "", "-", "no value yet"
		}
		level := a.Grid.Level(c)
		return fmt.Sprintf("l%d", level), fmt.Sprintf("%.4g (%d)", c.Mean, level), fmt.Sprintf("%.6g, level %d", c.Mean, level)
	})
	p := &a.Plot
	if len(p.Dots) == 0 {
		return
	}
	parameter := e(p.Parameter)
	fmt.Fprintf(b, "<h2><bdi>%s</bdi> by <bdi>%s</bdi></h2>\n<p>%d of %d cases that have both numbers. Least %.6g, largest %.6g.</p>\n", name, parameter, len(p.Dots), p.All, p.Least, p.Largest)
	fmt.Fprintf(b, "<svg class=\"plot\" role=\"img\" aria-label=\"%s from %.6g to %.6g, by %s from %.6g to %.6g\">", name, p.Least, p.Largest, parameter, p.From, p.To)
	for _, d := range p.Dots {
		fmt.Fprintf(b, "<circle cx=\"%.2f%%\" cy=\"%.2f%%\" r=\"3\"/>", 2+96*share(d.X, p.From, p.To), 96-92*share(d.Y, p.Least, p.Largest))
	}
	fmt.Fprintf(b, "</svg>\n<p class=\"ends\"><span>%.6g</span><span>%.6g</span></p>\n", p.From, p.To)
}

// share is the place of a number between two bounds, from 0 to 1.
func share(n, from, to float64) float64 {
	width := to/2 - from/2 // halves, as the difference of huge values is infinite
	if width <= 0 {
		return 0.5
	}
	return min(max((n/2-from/2)/width, 0), 1)
}

// table writes the cells of the grid, as shown by a function: the class of a cell, its text,
// and the same in words.
func (a *Array) table(b *strings.Builder, title string, show func(report.Cell) (class, text, words string)) {
	g := &a.Grid
	if len(g.Rows) == 0 || len(g.Columns) == 0 {
		b.WriteString("<p>No case has values of these parameters.</p>\n")
		return
	}
	corner := "cases"
	if g.Across != "" {
		corner = g.Across
	}
	if g.Down != "" {
		corner = g.Down + " \\ " + corner
	}
	fmt.Fprintf(b, "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"%s\"><table class=\"grid\" aria-label=\"%s\"><thead><tr><th scope=\"col\">%s</th>", e(title), e(title), e(corner))
	for _, value := range g.Columns {
		fmt.Fprintf(b, "<th scope=\"col\">%s</th>", heading(value))
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, row := range g.Rows {
		fmt.Fprintf(b, "<tr><th scope=\"row\">%s</th>", heading(row.Value))
		for _, c := range row.Cells {
			if c.Cases == 0 {
				b.WriteString("<td></td>")
				continue
			}
			class, text, words := show(c)
			text = e(text)
			if a.Link != nil && c.Run != "" {
				text = fmt.Sprintf("<a href=\"%s\" aria-label=\"%s, run %s\">%s</a>", e(a.Link(c.Run)), e(words), e(c.Run), text)
			}
			fmt.Fprintf(b, "<td class=\"%s\" title=\"%s\">%s</td>", class, e(words), text)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
	if g.MoreColumns > 0 || g.MoreRows > 0 {
		fmt.Fprintf(b, "<p>Not shown: %d further values across and %d down; <code>bee show --csv</code> writes all cases.</p>\n", g.MoreColumns, g.MoreRows)
	}
}

// maxHeading bounds a value at the edge of a grid, in bytes.
const maxHeading = 64

// heading is a value at the edge of a grid.
func heading(value string) string {
	if value == "" {
		return "-"
	}
	return e(lineOf(value, maxHeading))
}
