package report

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/stats"
)

const style = `:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--line:#ccc;--band:#e3ecf7;--mark:#1f5fa8;--bad:#a8321f;--good:#1f7a3a}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#161616;--line:#444;--band:#22303f;--mark:#7db3f0;--bad:#f08a7a;--good:#7dd39a}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{border-bottom:1px solid var(--line);padding:.3rem .5rem;text-align:left;vertical-align:top}
td.n{font-variant-numeric:tabular-nums;white-space:nowrap}.slower,.failed{color:var(--bad)}.equivalent,.faster{color:var(--good)}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font:13px system-ui,sans-serif}pre{overflow-x:auto;font-size:12px}li{margin:.3rem 0}
@media print{body{max-width:none;margin:0}details{display:none}}`

// Bounds of the page of a large study, without its measurements. CSV and JSON have everything.
const (
	mostRows   = 500 // of a table
	mostDrawn  = 200 // contrasts and series of values
	mostValues = 160 // of a series
)

// few returns as many rows as a table shows, and a sentence about the others.
func few[T any](rows []T, most int) (shown []T, others string) {
	if len(rows) <= most {
		return rows, ""
	}
	return rows[:most], fmt.Sprintf("<p>These are the first %d of %d. <code>bee bench report --csv</code> and <code>--json</code> have all.</p>\n", most, len(rows))
}

// HTML writes the page.
func (r *Report) HTML(w io.Writer) error {
	var b strings.Builder
	e := html.EscapeString
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width\"/><title>%s</title><style>%s</style></head><body>\n", e(r.title()), style)
	fmt.Fprintf(&b, "<h1>%s</h1>\n<ul>\n", e(r.title()))
	for _, s := range r.Sentences {
		fmt.Fprintf(&b, "<li>%s</li>\n", e(s))
	}
	b.WriteString("</ul>\n")
	r.table(&b, "Verdicts", true)
	r.ratios(&b)
	r.table(&b, "Exploratory figures", false)
	r.sweeps(&b)
	r.scaling(&b)
	r.time(&b)
	r.claims(&b)
	r.beserra(&b)
	r.published(&b)
	if len(r.Result.Flags) > 0 {
		b.WriteString("<h2>Fairness</h2>\n<ul>\n")
		for _, f := range r.Result.Flags {
			fmt.Fprintf(&b, "<li>%s: %s (%d measurements)</li>\n", e(f.Environment), e(f.Text), f.Rows)
		}
		b.WriteString("</ul>\n")
	}
	r.hosts(&b)
	fmt.Fprintf(&b, "<h2>Where from</h2>\n<p>%s</p>\n", e(r.provenance()))
	if r.Plan.Command != "" {
		fmt.Fprintf(&b, "<p>To repeat it: <code>%s</code></p>\n", e(r.Plan.Command))
	}
	if r.Plan.File != "" {
		fmt.Fprintf(&b, "<details><summary>Study file</summary><pre>%s</pre></details>\n", e(r.Plan.File))
	}
	b.WriteString("<details><summary>All measurements, a JSON line each</summary><pre>")
	lines := json.NewEncoder(escaper{&b}) // a line each
	lines.SetEscapeHTML(false)
	for i := range r.Rows {
		if err := lines.Encode(&r.Rows[i]); err != nil {
			return err
		}
	}
	b.WriteString("</pre></details>\n</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// An escaper writes text between the tags of a page. Quotes stay as they are.
type escaper struct{ b *strings.Builder }

func (e escaper) Write(text []byte) (int, error) {
	from := 0
	for i, c := range text {
		entity := ""
		switch c {
		case '&':
			entity = "&amp;"
		case '<':
			entity = "&lt;"
		case '>':
			entity = "&gt;"
		default:
			continue
		}
		e.b.Write(text[from:i])
		e.b.WriteString(entity)
		from = i + 1
	}
	e.b.Write(text[from:])
	return len(text), nil
}

func (r *Report) table(b *strings.Builder, title string, primary bool) {
	rows, others := few(r.verdicts(primary), mostRows)
	if len(rows) == 0 {
		return
	}
	e := html.EscapeString
	fmt.Fprintf(b, "<h2>%s</h2>\n<table><tr><th>figure</th><th>environment</th><th>verdict</th><th>change (worse is positive)</th><th></th></tr>\n", title)
	for _, v := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td class=\"%s\">%s</td><td class=\"n\">%s</td><td>%s</td></tr>\n",
			e(v.what), e(v.environment), e(strings.ReplaceAll(v.verdict, " ", "-")), e(v.verdict), e(v.cost), e(v.detail))
	}
	b.WriteString("</table>\n" + others)
}

type meanRow struct{ what, environment, change, word string }

func (r *Report) meanRows() []meanRow {
	var rows []meanRow
	for i := range r.Result.Contrasts {
		c := &r.Result.Contrasts[i]
		if c.Beserra == nil {
			continue
		}
		word := "irrelevant"
		if c.Beserra.Relevant {
			word = "relevant"
		}
		rows = append(rows, meanRow{what(c), c.Environment, fmt.Sprintf("%+.1f %%", 100*c.Beserra.Change), word})
	}
	return rows
}

func (r *Report) meansText() string {
	return fmt.Sprintf("Means of the %d counted runs of an environment, without the highest and the lowest; below 5 %% is called irrelevant. "+
		"The dissertation has %d runs, one after the other, and then those of the next environment. "+
		"The method has no test and cannot distinguish a difference from drift: the verdicts above are those of the same rows by the robust method.", r.Result.Blocks, stats.BeserraRuns)
}

func (r *Report) beserra(b *strings.Builder) {
	rows, others := few(r.meanRows(), mostRows)
	if len(rows) == 0 {
		return
	}
	e := html.EscapeString
	fmt.Fprintf(b, "<h2>Means, as in the dissertation</h2>\n<p>%s</p>\n<table><tr><th>figure</th><th>environment</th><th>change of the mean</th><th></th></tr>\n", e(r.meansText()))
	for _, m := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td class=\"n\">%s</td><td>%s</td></tr>\n", e(m.what), e(m.environment), m.change, m.word)
	}
	b.WriteString("</table>\n" + others)
}
