// Package report writes what a study found: an HTML page, Markdown, CSV or JSON. It decides
// nothing; verdicts and sentences come from evaluate. The page is one file without scripts,
// which requests nothing.
package report

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Report is a study with what was measured and found.
type Report struct {
	Plan      record.Plan `json:"plan"`
	Sentences []string    `json:"sentences"`
	// Comparison is that with former results, if it was asked for.
	Comparison *evaluate.Comparison `json:"comparison,omitempty"`
	Result     evaluate.Result      `json:"result"`
	// Hosts are those that the rows were measured on; nil: not known.
	Hosts *record.Hosts `json:"hosts,omitempty"`
	Rows  []record.Row  `json:"rows"`
}

// New evaluates rows and returns their report.
func New(p record.Plan, rows []record.Row) *Report {
	r := &Report{Plan: p, Rows: rows, Result: evaluate.Evaluate(&p, rows)}
	r.Sentences = evaluate.Sentences(&p, &r.Result)
	return r
}

// Compare adds a comparison with former results.
func (r *Report) Compare(c *evaluate.Comparison) {
	r.Comparison, r.Sentences = c, append(r.Sentences, c.Sentences()...)
}

// JSON writes everything.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// CSV writes a line for each contrast.
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	lines := [][]string{{"point", "environment", "metric", "key", "unit", "better", "primary", "verdict", "blocks", "ratio", "low_90", "high_90", "low_95", "high_95", "p", "p_adjusted", "margin"}}
	for _, x := range r.Result.Contrasts {
		f := x.Finding
		lines = append(lines, []string{
			x.Point, x.Environment, x.Metric, x.Key, x.Unit, x.Better, strconv.FormatBool(x.Primary), string(f.Verdict), strconv.Itoa(f.Blocks),
			number(math.Exp(f.Estimate)), number(math.Exp(f.Ninety.Low)), number(math.Exp(f.Ninety.High)),
			number(math.Exp(f.NinetyFive.Low)), number(math.Exp(f.NinetyFive.High)), number(f.P), number(f.Adjusted), number(f.Margin),
		})
	}
	return c.WriteAll(lines)
}

// number has six significant digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// title is that of the study, with the sites that stand in for others.
func (r *Report) title() string {
	title := cmp.Or(r.Plan.Title, "Study "+r.Plan.Study)
	for _, name := range slices.Sorted(maps.Keys(r.Plan.Mapped)) {
		title += " (on " + r.Plan.Mapped[name] + " in place of " + name + ")"
	}
	return title
}

// verdictRow is a row of the table of verdicts.
type verdictRow struct{ what, environment, verdict, cost, detail string }

func (r *Report) verdicts(primary bool) []verdictRow {
	var rows []verdictRow
	for i := range r.Result.Contrasts {
		c := &r.Result.Contrasts[i]
		if c.Primary != primary {
			continue
		}
		rows = append(rows, verdictRow{what(c), c.Environment, string(c.Finding.Verdict), cost(&c.Finding), detail(&c.Finding)})
	}
	return rows
}

func what(c *evaluate.Contrast) string {
	name := c.Metric
	if c.Key != "" {
		name += " at " + c.Key
	}
	if c.Point != "" {
		name += ", " + c.Point
	}
	return name
}

// cost is the estimate with its 95 % interval, as a change in percent; positive is worse.
func cost(f *stats.Finding) string {
	if f.Blocks == 0 {
		return "–"
	}
	if math.Exp(math.Abs(f.Estimate)) >= 2 {
		word := "worse"
		if f.Estimate < 0 {
			word = "better"
		}
		return fmt.Sprintf("%.1f times %s", math.Exp(math.Abs(f.Estimate)), word)
	}
	return fmt.Sprintf("%+.1f %% (%s to %s)", 100*math.Expm1(f.Estimate), change(f.NinetyFive.Low), change(f.NinetyFive.High))
}

func change(l float64) string {
	if math.IsInf(l, 0) {
		return "?"
	}
	return fmt.Sprintf("%+.1f %%", 100*math.Expm1(l))
}

func detail(f *stats.Finding) string {
	var parts []string
	switch f.Verdict {
	case stats.Equivalent:
		parts = append(parts, fmt.Sprintf("costs at most %.1f %%", 100*f.Bound()))
	case stats.Slower, stats.Faster:
		parts = append(parts, "adjusted p "+number(f.Adjusted))
	case stats.Inconclusive, stats.TooFew:
		if f.Likely > 0 {
			parts = append(parts, fmt.Sprintf("%d blocks likely decide", f.Likely))
		}
	case stats.Withheld:
		parts = append(parts, strings.Join(f.Withheld, "; "))
	case stats.Failed:
		parts = append(parts, fmt.Sprintf("%d of %d failed", f.Failed+f.Unusable, max(f.Of, f.Blocks)))
	case stats.Exploratory:
	}
	if f.Widened && f.Verdict != stats.Exploratory {
		parts = append(parts, fmt.Sprintf("the machine resolves %.1f %%", 100*f.Margin))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d blocks", f.Blocks)), ", ")
}
