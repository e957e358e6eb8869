// Package evaluate turns the rows of a study into findings, verdicts and sentences. All
// functions are pure. The same rows give the same result whenever they are evaluated.
package evaluate

import (
	"slices"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Result is what a study found.
type Result struct {
	Contrasts []Contrast `json:"contrasts"`
	// Values are the figures of each environment by themselves.
	Values []Values `json:"values"`
	// Scaling has the figures of each environment along a variable.
	Scaling []Scaling `json:"scaling,omitempty"`
	// Claims are statements of a paper beside the contrasts.
	Claims []Claim `json:"claims,omitempty"`
	// Failed are environments that have no verdict, with the reason.
	Failed []Reason `json:"failed,omitempty"`
	// BaselineFailed of BaselineOf counted measurements of the baseline still failed at their last
	// try.
	BaselineFailed int `json:"baseline_failed,omitempty"`
	BaselineOf     int `json:"baseline_of,omitempty"`
	// Flags are findings about fairness that stand beside the verdicts, with the number of
	// measurements that have each.
	Flags []Flag `json:"flags,omitempty"`
	// Blocks is the number of counted blocks that are whole.
	Blocks int `json:"blocks"`
	// BlockSeconds is the mean time of a counted block; 0: not known.
	BlockSeconds float64 `json:"block_seconds,omitempty"`
	// Family is the number of primary contrasts.
	Family int `json:"family"`
}

// Contrast compares a figure of an environment with that of the baseline.
type Contrast struct {
	Point       string `json:"point,omitempty"`
	Environment string `json:"environment"`
	Metric      string `json:"metric"`
	Unit        string `json:"unit,omitempty"`
	Better      string `json:"better"`
	// Key is that of a table's row, else empty.
	Key     string        `json:"key,omitempty"`
	Primary bool          `json:"primary,omitempty"`
	Finding stats.Finding `json:"finding"`
	// Beserra is the comparison of means by the dissertation's method.
	Beserra *stats.Comparison `json:"beserra,omitempty"`
	// Published is the comparison of the figures that a paper prints.
	Published *Published `json:"published,omitempty"`
	// Ratios are environment by baseline, block by block.
	Ratios []float64 `json:"ratios,omitempty"`
}

// Values are the counted figures of an environment, in the order of time.
type Values struct {
	Point       string    `json:"point,omitempty"`
	Environment string    `json:"environment"`
	Metric      string    `json:"metric"`
	Key         string    `json:"key,omitempty"`
	Figures     []float64 `json:"figures"`
	Median      float64   `json:"median"`
}

// Reason is why an environment has no verdict.
type Reason struct {
	Environment string `json:"environment"`
	Reason      string `json:"reason"`
	Remedy      string `json:"remedy,omitempty"`
}

// Flag is a finding about fairness.
type Flag struct {
	Environment string `json:"environment"`
	Text        string `json:"text"`
	Rows        int    `json:"rows"`
}

// Family returns the number of primary contrasts of a plan.
func Family(p *record.Plan) int {
	n := 0
	for _, point := range p.Points {
		for _, e := range p.Environments {
			if e.Name != p.Baseline && e.Dropped == "" && slices.Contains(point.Environments, e.Name) {
				n += primaries(p)
			}
		}
	}
	return n
}

func primaries(p *record.Plan) (n int) {
	for _, m := range p.Metrics {
		if m.Primary {
			n++
		}
	}
	return n
}

// Precise reports whether the rows suffice for the verdicts of a plan.
func Precise(p *record.Plan, rows []record.Row) bool {
	contrasts, _ := contrastsOf(p, index(rows))
	return stats.Precise(contrasts, p.Margin)
}

// Evaluate evaluates rows by the robust method, with the comparison of means beside it
// where the plan asks for beserra2016.
func Evaluate(p *record.Plan, rows []record.Row) Result {
	x := index(rows)
	contrasts, about := contrastsOf(p, x)
	r := Result{Contrasts: about, Blocks: x.blocks(p), Family: Family(p), BlockSeconds: blockSeconds(rows)}
	for i, f := range stats.Judge(contrasts, p.Margin) {
		c := &r.Contrasts[i]
		c.Finding = f
		for _, pair := range contrasts[i].Pairs {
			if ratio := pair.Env / pair.Base; finite(ratio) {
				c.Ratios = append(c.Ratios, ratio)
			}
		}
		own, base := x.figures(c.Point, c.Environment, c.Metric, c.Key), x.figures(c.Point, p.Baseline, c.Metric, c.Key)
		switch p.Method {
		case "beserra2016":
			if b := stats.Beserra(own, base); finite(b.Change) && finite(b.Env.CV) && x.together(c.Point, c.Environment, p.Baseline) {
				c.Beserra = &b
			}
		case "published":
			c.Published = published(p, c, own, base)
		}
	}
	r.Values, r.Scaling, r.Claims = x.values(p), scaling(p, x), claims(p, x)
	for _, e := range p.Environments {
		if e.Dropped != "" {
			r.Failed = append(r.Failed, Reason{e.Name, e.Dropped, e.Remedy})
		}
	}
	for _, point := range p.Points {
		failed, of := x.failures(point.ID, p.Baseline)
		r.BaselineFailed, r.BaselineOf = r.BaselineFailed+failed, r.BaselineOf+of
	}
	r.Flags = slices.Concat(flags(rows), drifts(rows), x.bindings(p), x.transportFlags(p), x.binaryFlags(p))
	return r
}

// blockSeconds is the mean time of a counted block.
func blockSeconds(rows []record.Row) (seconds float64) {
	blocks := map[int]bool{}
	for i := range rows {
		if rows[i].Block > 0 && rows[i].Status != record.GivenUp {
			blocks[rows[i].Block] = true
			seconds += rows[i].Seconds
		}
	}
	return seconds / max(1, float64(len(blocks)))
}

// contrastsOf returns the contrasts of all environments with the baseline, and what each
// is about.
func contrastsOf(p *record.Plan, x *table) (contrasts []stats.Contrast, about []Contrast) {
	for _, point := range p.Points {
		for _, e := range p.Environments {
			if e.Name == p.Baseline || e.Dropped != "" || !slices.Contains(point.Environments, e.Name) {
				continue
			}
			failed, of := x.failures(point.ID, e.Name)
			baseFailed, baseOf := x.failures(point.ID, p.Baseline)
			withheld := x.unfair(p, point.ID, e.Name, p.Baseline)
			for _, m := range p.Metrics {
				for _, k := range x.keys(point.ID, m) {
					pairs := x.pairs(point.ID, e.Name, p.Baseline, m.Name, k)
					contrasts = append(contrasts, stats.Contrast{
						Better: stats.Direction(m.Better), Primary: m.Primary && !m.Sweep,
						Pairs:  pairs,
						Again:  x.again(point.ID, p.Baseline, m.Name, k),
						Failed: failed + baseFailed, Of: of + baseOf, Withheld: slices.Concat(withheld, coarse(pairs)),
					})
					about = append(about, Contrast{Point: point.ID, Environment: e.Name, Metric: m.Name, Unit: m.Unit, Better: m.Better, Key: k, Primary: m.Primary && !m.Sweep})
				}
			}
		}
	}
	return contrasts, about
}

// mostSame is the number of blocks that may have the same values by chance.
const mostSame = 4

// coarse returns why a figure has no verdict that was the same in every block. What is measured
// varies, unless the figure has too few digits to show a difference.
func coarse(pairs []stats.Pair) []string {
	for _, p := range pairs {
		if p.Env != p.Base {
			return nil
		}
	}
	if len(pairs) <= mostSame {
		return nil
	}
	return []string{"each value is the same: the figure may have too few digits to show a difference"}
}

func flags(rows []record.Row) []Flag {
	var all []Flag
	for i := range rows {
		if !rows[i].Counts() {
			continue
		}
		for _, text := range rows[i].Flags {
			at := slices.IndexFunc(all, func(f Flag) bool { return f.Environment == rows[i].Environment && f.Text == text })
			if at < 0 {
				all, at = append(all, Flag{Environment: rows[i].Environment, Text: text}), len(all)
			}
			all[at].Rows++
		}
	}
	return all
}
