package stats

import (
	"math"
	"slices"
)

// Beserra's own numbers: runs, and the difference below which none is relevant.
const (
	BeserraRuns       = 32
	BeserraIrrelevant = 0.05
)

// Trimmed describes values without their highest and lowest.
type Trimmed struct {
	Runs      int     `json:"runs"` // before any was dropped
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"sd"`
	CV        float64 `json:"cv"` // deviation by mean
}

// Trim drops one highest and one lowest value, and describes the others.
func Trim(x []float64) Trimmed {
	s := sorted(x)
	if len(s) > 2 {
		s = s[1 : len(s)-1]
	}
	t := Trimmed{Runs: len(x), Mean: Mean(s), Deviation: Deviation(s)}
	t.CV = t.Deviation / t.Mean
	return t
}

// Comparison is an environment against the baseline by Beserra's method.
type Comparison struct {
	Env  Trimmed `json:"environment"`
	Base Trimmed `json:"baseline"`
	// Change of the mean against the baseline's, as a fraction; positive is higher.
	Change float64 `json:"change"`
	// Relevant: the means differ by 5 % or more. The method has no test.
	Relevant bool `json:"relevant"`
	// AsPublished: both sides have the 32 runs of the dissertation.
	AsPublished bool `json:"as_published"`
}

// Beserra compares values as Beserra's dissertation does (UFPE, 2016): 32 runs of each,
// the highest and the lowest dropped, means of the others; differences below 5 % are
// called irrelevant.
func Beserra(env, base []float64) Comparison {
	c := Comparison{Env: Trim(env), Base: Trim(base)}
	c.Change = c.Env.Mean/c.Base.Mean - 1
	c.Relevant = math.Abs(c.Change) >= BeserraIrrelevant
	c.AsPublished = len(env) == BeserraRuns && len(base) == BeserraRuns
	return c
}

// Summary names the single figure that a paper prints of its runs.
type Summary string

// The summaries of papers.
const (
	ByMean   Summary = "mean"
	ByMedian Summary = "median"
	ByBest   Summary = "best"
	ByWorst  Summary = "worst"
	ByTrim   Summary = "trimmed"
)

// Summarize returns the figure of a paper's method; NaN without values.
func Summarize(by Summary, x []float64, better Direction) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	switch by {
	case ByMedian:
		return Median(x)
	case ByTrim:
		return Trim(x).Mean
	case ByBest, ByWorst:
		if (better == Higher) == (by == ByBest) {
			return slices.Max(x)
		}
		return slices.Min(x)
	}
	return Mean(x)
}
