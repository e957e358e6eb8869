package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// claimRow is a claim of a paper beside the figure of this machine.
type claimRow struct{ claim, claimed, measured, agreement, from string }

func (r *Report) claimRows() []claimRow {
	var rows []claimRow
	for i := range r.Result.Claims {
		c := &r.Result.Claims[i]
		row := claimRow{claim: c.Text, claimed: rangeText(c.Claimed), measured: "–", agreement: string(c.Agreement), from: c.From}
		if c.Point != "" {
			row.claim += " (" + c.Point + ")"
		}
		if c.Measured != nil {
			row.measured = cost(c.Measured)
		}
		if c.Spread {
			row.claimed = "at most " + spread(c.Claimed.High)
			if c.Measured != nil && c.Measured.Blocks >= c.Measured.Least {
				row.measured = fmt.Sprintf("%s (%s to %s)", spread(c.Measured.Estimate), spread(c.Measured.NinetyFive.Low), spread(c.Measured.NinetyFive.High))
			}
		}
		if c.Reason != "" {
			row.agreement += ": " + c.Reason
		}
		rows = append(rows, row)
	}
	return rows
}

// spread is a logarithm of a coefficient of variation in percent.
func spread(l float64) string { return fmt.Sprintf("%.2f %%", 100*math.Exp(l)) }

// rangeText is a range of logarithms as changes in percent; positive is worse.
func rangeText(i stats.Interval) string {
	switch {
	case math.IsInf(i.Low, 0) && math.IsInf(i.High, 0):
		return "any"
	case math.IsInf(i.Low, 0):
		return "at most " + change(i.High)
	case math.IsInf(i.High, 0):
		return "at least " + change(i.Low)
	}
	return change(i.Low) + " to " + change(i.High)
}

func (r *Report) claims(b *strings.Builder) {
	rows, others := few(r.claimRows(), mostRows)
	if len(rows) == 0 {
		return
	}
	e := html.EscapeString
	fmt.Fprintf(b, "<h2>Claims of the paper</h2>\n<p>%s</p>\n<table><tr><th>claim</th><th>claimed change</th><th>measured</th><th></th><th>from</th></tr>\n", e(evaluate.ClaimsSentence(r.Result.Claims)))
	for _, c := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td>%s</td><td>%s</td></tr>\n", e(c.claim), e(c.claimed), e(c.measured), e(c.agreement), e(c.from))
	}
	b.WriteString("</table>\n" + others)
}
