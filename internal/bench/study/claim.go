package study

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Claim is what a paper says of an environment.
type Claim struct {
	Environment string `yaml:"environment"`
	Metric      string `yaml:"metric"`
	// At are values of variables, and the key of a sweep, where the claim holds; absent: all.
	At map[string]Value `yaml:"at"`
	// Against is another environment, AgainstMetric another figure, and AgainstAt other
	// values of variables; absent: the baseline, the same figure, the same point.
	Against       string           `yaml:"against"`
	AgainstMetric string           `yaml:"against_metric"`
	AgainstAt     map[string]Value `yaml:"against_at"`
	// Says is equivalent, slower, faster or steadier than what it is compared with, or steady:
	// its values spread by Within at most, as a share of their mean.
	Says string `yaml:"says"`
	// Within is the difference that `equivalent` allows; default: the margin.
	Within Fraction `yaml:"within"`
	// By is how much `slower` or `faster`; absent: by more than nothing.
	By Range `yaml:"by"`
	// From is the paper and the figure.
	From string `yaml:"from"`
}

// What a claim says of the spread of values, beside the verdicts.
const (
	Steady   = "steady"
	Steadier = "steadier"
)

// Interval is the claim as a range of the logarithm of the ratio to the baseline; positive
// is worse. A single share allows the margin about it.
func (c *Claim) Interval(margin float64) stats.Interval {
	switch c.Says {
	case Steady:
		return stats.Interval{Low: math.Inf(-1), High: math.Log(float64(c.Within))}
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

// Text is the claim in words.
func (c *Claim) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", c.Environment, c.Metric)
	if len(c.At) > 0 {
		fmt.Fprintf(&b, " at %s", list(c.At))
	}
	fmt.Fprintf(&b, " is %s", c.Says)
	switch {
	case c.Within != 0:
		fmt.Fprintf(&b, " within %s", share(float64(c.Within)))
	case c.By.Low == c.By.High && c.By.Low != 0:
		fmt.Fprintf(&b, " by %s", share(c.By.Low))
	case c.By != (Range{}):
		fmt.Fprintf(&b, " by %s to %s", share(c.By.Low), share(c.By.High))
	}
	switch {
	case c.AgainstMetric != "":
		fmt.Fprintf(&b, ", compared with %s", c.AgainstMetric)
	case len(c.AgainstAt) > 0:
		fmt.Fprintf(&b, ", compared with %s", list(c.AgainstAt))
	case c.Against != "":
		fmt.Fprintf(&b, ", compared with %s", c.Against)
	}
	return b.String()
}

func list(values map[string]Value) string {
	parts := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+"="+string(values[name]))
	}
	return strings.Join(parts, ",")
}

func share(x float64) string { return strconv.FormatFloat(100*x, 'g', 4, 64) + " %" }

// Holds reports whether a claim is about a point.
func (c *Claim) Holds(p *Point) bool {
	for name, v := range c.At {
		if name != "key" && p.Values[name] != v {
			return false
		}
	}
	for name, v := range c.AgainstAt {
		if p.Values[name] == v { // the other side itself
			return false
		}
	}
	return true
}

// Other is the point that a point is compared with.
func (c *Claim) Other(p *Point) Point {
	o := Point{Values: maps.Clone(p.Values)}
	for name, v := range c.AgainstAt {
		o.Values[name] = v
	}
	return o
}
