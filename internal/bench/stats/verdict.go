package stats

import "math"

// Verdict is the decision about a contrast.
type Verdict string

// The verdicts. Equivalent is decided first. All but Equivalent, Slower and Faster leave a
// contrast undecided.
const (
	Equivalent   Verdict = "equivalent"   // the 90 % interval lies within the margin
	Slower       Verdict = "slower"       // adjusted p < 0.05, and the estimate is worse
	Faster       Verdict = "faster"       // adjusted p < 0.05, and the estimate is better
	Inconclusive Verdict = "inconclusive" // none of these
	TooFew       Verdict = "too few"      // fewer blocks than the family needs
	Failed       Verdict = "failed"       // measurements failed, or have no ratio
	Withheld     Verdict = "withheld"     // the comparison is not fair
	Exploratory  Verdict = "exploratory"  // a secondary metric: figures, no verdict
)

// significance is the level of tests, and half of what the interval of equivalence leaves.
const significance = 0.05

// Contrast is one figure of one environment against the baseline, in counted blocks.
type Contrast struct {
	Better  Direction
	Primary bool
	// Pairs by block, of the blocks in which both were measured.
	Pairs []Pair
	// Again is the baseline against itself, the A/A pairs of the same blocks.
	Again []Pair
	// Failed is the number of measurements, of Of, that still fail after their retry.
	Failed, Of int
	// Withheld are the reasons for which the comparison is not fair.
	Withheld []string
}

// Finding is what the robust method finds about a contrast. Figures are logarithms of
// ratios; positive is worse.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Blocks  int     `json:"blocks"`
	// Estimate is meaningless without blocks, and 0 then.
	Estimate   float64  `json:"estimate"`
	Ninety     Interval `json:"interval_90"`
	NinetyFive Interval `json:"interval_95"`
	// P of the signed-rank test, and adjusted for the family.
	P        float64 `json:"p"`
	Adjusted float64 `json:"p_adjusted"`
	// Margin of the verdict: the one asked for, or what A/A resolves where Widened. Where
	// A/A resolves nothing, no verdict is equivalent.
	Margin  float64 `json:"margin"`
	Widened bool    `json:"margin_widened"`
	// Again is the 90 % interval of A/A.
	Again Interval `json:"interval_again"`
	// Failed of Of measurements; Unusable pairs have no ratio.
	Failed   int `json:"failed"`
	Of       int `json:"of"`
	Unusable int `json:"unusable"`
	// Least is the number of blocks below which the family allows no verdict.
	Least int `json:"least_blocks"`
	// Likely is the number of blocks that would likely decide; 0: not known.
	Likely   int      `json:"likely_blocks"`
	Withheld []string `json:"withheld,omitempty"`
	// Outliers are the positions of pairs far from the others. All are counted.
	Outliers []int `json:"outliers,omitempty"`
	Drift    Drift `json:"drift"`
}

// Decided reports whether a gate may pass by the finding: equivalent, slower or faster, by
// the margin that was asked for.
func (f *Finding) Decided() bool {
	switch f.Verdict {
	case Slower, Faster:
		return true
	case Equivalent:
		return !f.Widened
	}
	return false
}

// Bound is the most that the environment costs with 95 % confidence, as a fraction: the
// upper end of the 90 % interval. An environment that is surely better costs 0.
func (f *Finding) Bound() float64 { return max(0, math.Expm1(f.Ninety.High)) }

// Judge decides about the contrasts of one study by the robust method. Its primary
// contrasts are one family. margin is a fraction, such as 0.05.
func Judge(contrasts []Contrast, margin float64) []Finding {
	family := 0
	for i := range contrasts {
		if contrasts[i].Primary {
			family++
		}
	}
	findings := make([]Finding, len(contrasts))
	var p []float64
	for i := range contrasts {
		findings[i] = measure(&contrasts[i], margin)
		findings[i].Least = LeastBlocks(family)
		if contrasts[i].Primary {
			p = append(p, findings[i].P)
		}
	}
	adjusted := Holm(p)
	for i := range contrasts {
		f := &findings[i]
		if !contrasts[i].Primary {
			f.Adjusted, f.Verdict = f.P, Exploratory
			continue
		}
		f.Adjusted, adjusted = adjusted[0], adjusted[1:]
		f.Verdict = decide(f)
		if f.Verdict == Inconclusive || f.Verdict == TooFew {
			if n := Forecast(f.Estimate, f.Ninety, f.Blocks, f.Margin); n > 0 {
				f.Likely = max(n, f.Least)
			}
		}
	}
	return findings
}

// measure fills in the figures of a contrast.
func measure(c *Contrast, margin float64) Finding {
	l, without := logRatios(c.Pairs, c.Better)
	f := Finding{
		Blocks: len(l), Unusable: without, Failed: c.Failed, Of: c.Of, Withheld: c.Withheld, Margin: margin,
		Ninety: WalshInterval(l, 1-2*significance), NinetyFive: WalshInterval(l, 1-significance), P: 1,
	}
	if len(l) > 0 {
		f.Estimate, f.P = HodgesLehmann(l), SignedRank(l)
		f.Outliers, f.Drift = Outliers(l), Trend(l)
	}
	again, _ := logRatios(c.Again, c.Better)
	f.Again = WalshInterval(again, 1-2*significance)
	if !f.Again.Within(Band(margin)) {
		f.Widened = true
		if m := math.Expm1(max(-f.Again.Low, f.Again.High)); !math.IsInf(m, 0) {
			f.Margin = m
		}
	}
	return f
}

// decide returns the verdict of a primary contrast.
func decide(f *Finding) Verdict {
	switch {
	case f.Failed > 0 || f.Unusable > 0:
		return Failed
	case len(f.Withheld) > 0:
		return Withheld
	case f.Blocks < f.Least:
		return TooFew
	case f.Again.Within(Band(f.Margin)) && f.Ninety.Within(Band(f.Margin)):
		return Equivalent
	case f.Adjusted < significance && f.Estimate > 0:
		return Slower
	case f.Adjusted < significance && f.Estimate < 0:
		return Faster
	}
	return Inconclusive
}

// Resolution is what a machine can resolve, by A/A pairs.
type Resolution struct {
	Blocks int `json:"blocks"`
	// Margin is the least margin with which A/A is equivalent; infinite for too few blocks.
	Margin float64 `json:"-"`
	// Likely is the number of blocks with which the margin asked for would likely do.
	Likely int      `json:"likely_blocks"`
	Ninety Interval `json:"interval_90"`
}

// Calibrate evaluates A/A pairs: an environment against itself.
func Calibrate(again []Pair, margin float64) Resolution {
	l, _ := logRatios(again, Lower)
	r := Resolution{Blocks: len(l), Ninety: WalshInterval(l, 1-2*significance)}
	r.Margin = math.Expm1(max(-r.Ninety.Low, r.Ninety.High))
	r.Likely = len(l)
	if !r.Ninety.Within(Band(margin)) {
		r.Likely = Forecast(0, r.Ninety, len(l), margin)
	}
	return r
}
