package study

import (
	"math"

	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Claim is what a paper says of an environment.
type Claim struct {
	Environment string `yaml:"environment"`
	Metric      string `yaml:"metric"`
	// At are values of variables, and the key of a sweep, where the claim holds; absent: all.
	At map[string]Value `yaml:"at"`
	// Says is equivalent, slower or faster, than the baseline.
	Says string `yaml:"says"`
	// Within is the difference that `equivalent` allows; default: the margin.
	Within Fraction `yaml:"within"`
	// By is how much `slower` or `faster`; absent: by more than nothing.
	By Range `yaml:"by"`
	// From is the paper and the figure.
	From string `yaml:"from"`
}

// Interval is the claim as a range of the logarithm of the ratio to the baseline; positive
// is worse. A single share allows the margin about it.
func (c *Claim) Interval(margin float64) stats.Interval {
	switch c.Says {
	case string(stats.Equivalent):
		if c.Within != 0 {
			margin = float64(c.Within)
		}
		return stats.Band(margin)
	case string(stats.Slower):
		if c.By == (Range{}) {
			return stats.Interval{Low: 0, High: math.Inf(1)}
		}
		return stats.Interval{Low: math.Log1p(c.By.Low) - c.slack(margin), High: math.Log1p(c.By.High) + c.slack(margin)}
	}
	if c.By == (Range{}) {
		return stats.Interval{Low: math.Inf(-1), High: 0}
	}
	return stats.Interval{Low: -math.Log1p(c.By.High) - c.slack(margin), High: -math.Log1p(c.By.Low) + c.slack(margin)}
}

func (c *Claim) slack(margin float64) float64 {
	if c.By.Low == c.By.High {
		return math.Log1p(margin)
	}
	return 0
}
