package stats

import "math"

// leastSpread stands for that of equal values, whose logarithm is none.
const leastSpread = 1e-12

// leastForSpread is the number of values below which a spread says nothing.
const leastForSpread = 10

// Spread is the coefficient of variation: the deviation as a share of the mean.
func Spread(x []float64) float64 {
	return max(leastSpread, Deviation(x)/math.Abs(Mean(x)))
}

// JudgeSpread returns the logarithm of the coefficient of variation of values, with intervals.
// With others it is that of the ratio to theirs. Intervals are those of normal values, for
// which the variance of the logarithm is 1/(2(n-1)) + v²/n by the delta method.
func JudgeSpread(x, others []float64) Finding {
	f := Finding{Verdict: Inconclusive, Blocks: len(x), Least: leastForSpread}
	estimate, variance := spreadLog(x)
	if others != nil {
		f.Blocks = min(f.Blocks, len(others))
		e, v := spreadLog(others)
		estimate, variance = estimate-e, variance+v
	}
	if f.Blocks < leastForSpread || math.IsNaN(estimate) || math.IsInf(estimate, 0) || math.IsInf(variance, 0) {
		f.Verdict = TooFew
		return f
	}
	about := func(level float64) Interval {
		half := normalQuantile((1+level)/2) * math.Sqrt(variance)
		return Interval{Low: estimate - half, High: estimate + half}
	}
	f.Estimate, f.Ninety, f.NinetyFive = estimate, about(0.9), about(0.95)
	return f
}

func spreadLog(x []float64) (estimate, variance float64) {
	v, n := Spread(x), float64(len(x))
	return math.Log(v), 1/(2*(n-1)) + v*v/n
}
