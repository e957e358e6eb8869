package stats

import (
	"encoding/json"
	"math"
)

// Direction says which values of a metric are better.
type Direction string

// The directions of metrics.
const (
	Lower  Direction = "lower"
	Higher Direction = "higher"
)

// Pair is the figure of an environment and of the baseline in one block.
type Pair struct{ Env, Base float64 }

// LogRatio is ln(Env/Base), with its sign set so that positive is worse. It reports false
// for figures that have no ratio: zero, negative, infinite, or no number. In particular
// two zeros are no sign of equality: a metric that always reads 0 measures nothing.
func (p Pair) LogRatio(better Direction) (float64, bool) {
	if !(p.Env > 0 && p.Base > 0) || math.IsInf(p.Env, 0) || math.IsInf(p.Base, 0) {
		return 0, false
	}
	l := math.Log(p.Env) - math.Log(p.Base)
	if better == Higher {
		l = -l
	}
	return l, true
}

// logRatios returns the ratios of all pairs, and how many pairs have none.
func logRatios(pairs []Pair, better Direction) (l []float64, without int) {
	for _, p := range pairs {
		if v, ok := p.LogRatio(better); ok {
			l = append(l, v)
		} else {
			without++
		}
	}
	return l, without
}

// Band is the interval of logarithms of the ratios that a margin calls equal.
func Band(margin float64) Interval {
	return Interval{-math.Log1p(margin), math.Log1p(margin)}
}

// jsonInterval has null for an infinite end, as JSON has no infinity.
type jsonInterval struct {
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
}

// MarshalJSON writes null for an infinite end.
func (i Interval) MarshalJSON() ([]byte, error) {
	finite := func(v float64) *float64 {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return json.Marshal(jsonInterval{finite(i.Low), finite(i.High)})
}

// UnmarshalJSON reads null as an infinite end.
func (i *Interval) UnmarshalJSON(raw []byte) error {
	var j jsonInterval
	if err := json.Unmarshal(raw, &j); err != nil {
		return err
	}
	*i = Interval{math.Inf(-1), math.Inf(1)}
	if j.Low != nil {
		i.Low = *j.Low
	}
	if j.High != nil {
		i.High = *j.High
	}
	return nil
}
