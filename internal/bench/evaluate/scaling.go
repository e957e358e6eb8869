package evaluate

import (
	"cmp"
	"math"
	"strconv"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Scaling is a figure of an environment at one value of a variable against that at another.
type Scaling struct {
	Environment string `json:"environment"`
	Metric      string `json:"metric"`
	Variable    string `json:"variable"`
	Point       string `json:"point"`
	Against     string `json:"against"`
	// Finding is exploratory.
	Finding stats.Finding `json:"finding"`
	// Speedup is how many times better the figure is.
	Speedup float64 `json:"speedup"`
	// Efficiency is the speedup by the ratio of the values; nil where they are no numbers.
	Efficiency *float64 `json:"efficiency,omitempty"`
}

// scaling compares the primary figures of each environment along the variables of a plan.
func scaling(p *record.Plan, x *table) []Scaling {
	values := map[string]map[string]string{}
	for _, point := range p.Points {
		values[point.ID] = point.Values
	}
	var all []Scaling
	for _, s := range p.Scales {
		for _, e := range p.Environments {
			for _, m := range p.Metrics {
				if !m.Primary || m.Sweep {
					continue
				}
				for _, at := range s.Points {
					pairs := x.between(side{at.Point, e.Name, m.Name, ""}, side{at.Against, e.Name, m.Name, ""})
					if len(pairs) == 0 {
						continue
					}
					f := stats.Judge([]stats.Contrast{{Better: stats.Direction(m.Better), Pairs: pairs}}, p.Margin)[0]
					if f.Blocks == 0 {
						continue
					}
					one := Scaling{Environment: e.Name, Metric: m.Name, Variable: s.Variable, Point: at.Point, Against: at.Against, Finding: f, Speedup: math.Exp(-f.Estimate)}
					to, err := strconv.ParseFloat(values[at.Point][s.Variable], 64)
					from, err2 := strconv.ParseFloat(values[at.Against][s.Variable], 64)
					if efficiency := one.Speedup * from / to; cmp.Or(err, err2) == nil && finite(efficiency) && efficiency > 0 {
						one.Efficiency = &efficiency
					}
					all = append(all, one)
				}
			}
		}
	}
	return all
}

func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// Published are the figures that a paper prints of an environment and of the baseline.
type Published struct {
	Environment float64 `json:"environment"`
	Baseline    float64 `json:"baseline"`
	// Change is a fraction; positive is higher.
	Change float64 `json:"change"`
}

// published returns nil without figures of both.
func published(p *record.Plan, c *Contrast, own, base []float64) *Published {
	by := stats.Summary(cmp.Or(p.Summary, string(stats.ByMean)))
	f := Published{Environment: stats.Summarize(by, own, stats.Direction(c.Better)), Baseline: stats.Summarize(by, base, stats.Direction(c.Better))}
	if f.Change = f.Environment/f.Baseline - 1; !finite(f.Change) {
		return nil
	}
	return &f
}
