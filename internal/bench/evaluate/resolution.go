package evaluate

import (
	"fmt"
	"math"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Resolution is what a machine can resolve of a figure, by the baseline against itself.
type Resolution struct {
	Point  string `json:"point,omitempty"`
	Metric string `json:"metric"`
	stats.Resolution
	// MarginOrNil is the least margin; nil where the blocks are too few for one.
	MarginOrNil *float64 `json:"margin"`
	// Needs has for each margin the blocks that would likely do, and their time.
	Needs []Need `json:"needs"`
}

// Need is the effort for a margin. No blocks: it cannot be forecast.
type Need struct {
	Margin  float64 `json:"margin"`
	Blocks  int     `json:"blocks,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// margins for which the effort is forecast.
func margins(asked float64) []float64 {
	all := []float64{0.10, 0.05, 0.02, 0.01}
	for _, m := range all {
		if m == asked {
			return all
		}
	}
	return append(all, asked)
}

// Resolutions evaluates the baseline against itself: each primary figure, at each point.
func Resolutions(p *record.Plan, rows []record.Row) []Resolution {
	x := index(rows)
	blockSeconds := 0.0
	for i := range rows {
		blockSeconds += rows[i].Seconds
	}
	if n := x.blocks(p) + 1; n > 0 { // the one that warms up, too
		blockSeconds /= float64(n)
	}
	var all []Resolution
	for _, point := range p.Points {
		for _, m := range p.Metrics {
			if !m.Primary || m.Sweep {
				continue
			}
			again := x.again(point.ID, p.Baseline, m.Name, "")
			r := Resolution{Point: point.ID, Metric: m.Name, Resolution: stats.Calibrate(again, p.Margin)}
			if !math.IsInf(r.Margin, 0) && !math.IsNaN(r.Margin) {
				r.MarginOrNil = &r.Margin
			}
			for _, margin := range margins(p.Margin) {
				n := max(stats.Calibrate(again, margin).Likely, stats.LeastBlocks(1))
				if r.MarginOrNil == nil {
					n = 0
				}
				r.Needs = append(r.Needs, Need{Margin: margin, Blocks: n, Seconds: float64(n) * blockSeconds})
			}
			all = append(all, r)
		}
	}
	return all
}

// ResolutionSentences say what a machine can resolve, a sentence for each figure.
func ResolutionSentences(p *record.Plan, all []Resolution) []string {
	var lines []string
	for _, r := range all {
		name := r.Metric
		if r.Point != "" {
			name += " at " + r.Point
		}
		if r.MarginOrNil == nil {
			lines = append(lines, fmt.Sprintf("%s: %d blocks are too few to know what this machine resolves.", name, r.Blocks))
			continue
		}
		text := fmt.Sprintf("%s: %s against itself is equal within %s after %d blocks.", name, p.Baseline, percent(r.Margin), r.Blocks)
		for _, n := range r.Needs {
			if n.Blocks == 0 {
				text += fmt.Sprintf(" %s is out of reach.", percent(n.Margin))
				continue
			}
			text += fmt.Sprintf(" %s likely needs %d blocks (%s for one environment).", percent(n.Margin), n.Blocks, short(time.Duration(n.Seconds*float64(time.Second))))
		}
		lines = append(lines, text)
	}
	return lines
}
