package evaluate

import (
	"fmt"
	"math"
	"slices"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Claim is a statement of a paper beside what was measured, at one point.
type Claim struct {
	Text      string          `json:"text"`
	From      string          `json:"from"`
	Agreement stats.Agreement `json:"agreement"`
	Point     string          `json:"point,omitempty"`
	// Claimed bounds what the paper says, as logarithms of a ratio; positive is worse.
	Claimed stats.Interval `json:"claimed_log"`
	// Measured is the finding; nil where nothing was measured.
	Measured *stats.Finding `json:"measured,omitempty"`
	// Spread: Claimed and Measured are of the spread of the values, as a share of their mean.
	Spread bool `json:"spread,omitempty"`
	// Reason is why the claim cannot be judged, or empty.
	Reason string `json:"reason,omitempty"`
}

// claims judges the claims of a plan: one line for each point where a claim holds.
func claims(p *record.Plan, x *table) []Claim {
	var all []Claim
	for i := range p.Claims {
		c := &p.Claims[i]
		m := slices.IndexFunc(p.Metrics, func(m record.Metric) bool { return m.Name == c.Metric })
		out := Claim{Text: c.Text, From: c.From, Agreement: stats.Undecided, Claimed: interval(c), Spread: c.Own}
		if m < 0 || len(c.Points) == 0 {
			out.Reason = "not measured at this size"
			all = append(all, out)
			continue
		}
		for _, at := range c.Points {
			out.Point = at.Point
			one, other := side{at.Point, c.Environment, c.Metric, c.Key}, side{at.Against, c.Against, c.AgainstMetric, c.Key}
			f := x.judge(p, c, one, other, stats.Direction(p.Metrics[m].Better))
			out.Agreement, out.Reason, out.Measured = agreement(p, c, &f)
			all = append(all, out)
		}
	}
	return all
}

// judge compares two figures as a claim does.
func (x *table) judge(p *record.Plan, c *record.Claim, one, other side, better stats.Direction) stats.Finding {
	withheld := x.unfair(p, one.point, one.environment, other.environment)
	failed, of := x.failures(one.point, one.environment)
	if !c.Own && (one.point != other.point || one.environment != other.environment) {
		otherFailed, otherOf := x.failures(other.point, other.environment)
		failed, of = failed+otherFailed, of+otherOf
	}
	if c.Own || c.Spread {
		own := x.figures(one.point, one.environment, one.metric, one.key)
		var others []float64
		if withheld = slices.Concat(withheld, constant(own)); c.Own {
			withheld = slices.Concat(x.unfair(p, one.point, one.environment, one.environment), constant(own))
		} else {
			others = append([]float64{}, x.figures(other.point, other.environment, other.metric, other.key)...)
			withheld = slices.Concat(withheld, constant(others))
		}
		f := stats.JudgeSpread(own, others)
		f.Withheld, f.Failed, f.Of = withheld, failed, of
		return f
	}
	pairs := x.between(one, other)
	return stats.Judge([]stats.Contrast{{
		Better: better, Pairs: pairs, Withheld: slices.Concat(withheld, coarse(pairs)), Failed: failed, Of: of,
		Again: x.again(other.point, p.Baseline, other.metric, other.key),
	}}, p.Margin)[0]
}

// constant returns why nothing is known of the spread of values that are all the same.
func constant(values []float64) []string {
	if len(values) == 0 || slices.Min(values) != slices.Max(values) {
		return nil
	}
	return []string{"each value is the same: the figure may have too few digits to show a spread"}
}

// agreement judges a claim by what was measured, or returns why it cannot.
func agreement(p *record.Plan, c *record.Claim, f *stats.Finding) (stats.Agreement, string, *stats.Finding) {
	switch {
	case f.Blocks == 0:
		return stats.Undecided, notMeasured(p, c), nil
	case p.Size == "smoke":
		return stats.Undecided, "the size smoke is too small for a claim", f
	case emulated(p, c.Environment) || emulated(p, c.Against):
		return stats.Undecided, "a processor is emulated", f
	case c.StandIn != "":
		return stats.Undecided, "measured with a stand-in: " + c.StandIn, f
	case f.Failed > 0:
		return stats.Undecided, fmt.Sprintf("%d of %d measurements failed", f.Failed, f.Of), f
	case f.Unusable > 0:
		return stats.Undecided, fmt.Sprintf("%d figures have no ratio", f.Unusable), f
	case len(f.Withheld) > 0:
		return stats.Undecided, f.Withheld[0], f
	case f.Blocks < stats.LeastBlocks(1):
		return stats.Undecided, "too few blocks", f
	}
	got := f.Check(interval(c))
	if got == stats.Undecided {
		return got, "the interval reaches over the claim's bounds", f
	}
	return got, "", f
}

// notMeasured is why a contrast has no figures.
func notMeasured(p *record.Plan, c *record.Claim) string {
	for _, e := range p.Environments {
		if (e.Name == c.Environment || e.Name == c.Against) && e.Dropped != "" {
			return e.Name + " does not work here"
		}
	}
	return "not measured here"
}

// interval is the range of the logarithm of the ratio; an absent end is infinite.
func interval(c *record.Claim) stats.Interval {
	i := stats.Interval{Low: math.Inf(-1), High: math.Inf(1)}
	if c.Low != nil {
		i.Low = *c.Low
	}
	if c.High != nil {
		i.High = *c.High
	}
	return i
}

func emulated(p *record.Plan, environment string) bool {
	return slices.ContainsFunc(p.Environments, func(e record.Environment) bool { return e.Name == environment && e.Emulated })
}

// ClaimsSentence counts how the measurement stands to the claims; empty without claims.
func ClaimsSentence(all []Claim) string {
	by := map[stats.Agreement]int{}
	for i := range all {
		by[all[i].Agreement]++
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("Of %d claims of the paper, %d agree with this machine, %d disagree, and %d are undecided.", len(all), by[stats.Agrees], by[stats.Disagrees], by[stats.Undecided])
}
