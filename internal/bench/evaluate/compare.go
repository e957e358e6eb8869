package evaluate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Series is what one directory of results has.
type Series struct {
	Name string
	Plan record.Plan
	Rows []record.Row
}

// What a comparison of two series compares.
const (
	// ComparesValues: both are of one machine. The drift between the dates is included.
	ComparesValues = "values"
	// ComparesOverheads: the machines differ, so each is seen by its own baseline.
	ComparesOverheads = "overheads"
)

// Comparison is what changed from one series to another.
type Comparison struct {
	From string `json:"from"`
	To   string `json:"to"`
	Of   string `json:"of"`
	// Differences are reasons for which the series may not be comparable.
	Differences []string `json:"differences,omitempty"`
	Changes     []Change `json:"changes"`
	// Missing are primary figures that the first series has and the other has not.
	Missing []string `json:"missing,omitempty"`
}

// Change is that of one figure of an environment. Change and the interval are logarithms of
// a ratio; positive is worse.
type Change struct {
	Point       string         `json:"point,omitempty"`
	Environment string         `json:"environment"`
	Metric      string         `json:"metric"`
	Key         string         `json:"key,omitempty"`
	Unit        string         `json:"unit,omitempty"`
	Primary     bool           `json:"primary,omitempty"`
	FromMedian  float64        `json:"from_median"`
	ToMedian    float64        `json:"to_median"`
	FromBlocks  int            `json:"from_blocks"`
	ToBlocks    int            `json:"to_blocks"`
	Change      float64        `json:"change_log"`
	NinetyFive  stats.Interval `json:"interval_95"`
	P           float64        `json:"p"`
	Adjusted    float64        `json:"p_adjusted,omitempty"`
	// Verdict is slower, faster, inconclusive, or exploratory for secondary figures. Series
	// that were not measured alternately are never called equivalent.
	Verdict stats.Verdict `json:"verdict"`
}

// Compare compares two series, unpaired, by the exact test of Mann and Whitney and the shift
// of Hodges and Lehmann.
func Compare(from, to Series) Comparison {
	c := Comparison{From: from.Name, To: to.Name, Of: ComparesValues, Differences: differences(&from.Plan, &to.Plan)}
	if !sameMachine(from.Plan.Machine, to.Plan.Machine) {
		c.Of = ComparesOverheads
	}
	a, b := index(from.Rows), index(to.Rows)
	var tests stats.Unpaired
	for _, point := range to.Plan.Points {
		for _, e := range to.Plan.Environments {
			if c.Of == ComparesOverheads && (e.Name == to.Plan.Baseline || from.Plan.Baseline != to.Plan.Baseline) {
				continue
			}
			for _, m := range to.Plan.Metrics {
				for _, k := range b.keys(point.ID, m) {
					one, other := a.samples(&from.Plan, c.Of, point.ID, e.Name, m, k), b.samples(&to.Plan, c.Of, point.ID, e.Name, m, k)
					if len(one) == 0 || len(other) == 0 {
						continue
					}
					x := Change{
						Point: point.ID, Environment: e.Name, Metric: m.Name, Key: k, Unit: m.Unit, Primary: m.Primary && !m.Sweep,
						FromMedian: stats.Median(a.figures(point.ID, e.Name, m.Name, k)), ToMedian: stats.Median(b.figures(point.ID, e.Name, m.Name, k)),
						FromBlocks: len(one), ToBlocks: len(other), P: tests.MannWhitney(other, one),
					}
					x.Change, x.NinetyFive = tests.Shift(other, one, 0.95)
					c.Changes = append(c.Changes, x)
				}
			}
		}
	}
	decide(c.Changes)
	c.Missing = missing(&from.Plan, a, &c)
	return c
}

// missing names the primary figures of a series that no change has.
func missing(p *record.Plan, x *table, c *Comparison) (names []string) {
	type figure struct{ point, environment, metric string }
	changed := map[figure]bool{}
	for i := range c.Changes {
		changed[figure{c.Changes[i].Point, c.Changes[i].Environment, c.Changes[i].Metric}] = true
	}
	for _, point := range p.Points {
		for _, e := range p.Environments {
			if c.Of == ComparesOverheads && e.Name == p.Baseline { // its overhead is none
				continue
			}
			for _, m := range p.Metrics {
				if m.Primary && !m.Sweep && !changed[figure{point.ID, e.Name, m.Name}] && len(x.figures(point.ID, e.Name, m.Name, "")) > 0 {
					names = append(names, strings.TrimSuffix(e.Name+": "+m.Name+" at "+point.ID, " at "))
				}
			}
		}
	}
	return names
}

// decide adjusts for the family of primary figures.
func decide(changes []Change) {
	var p []float64
	for i := range changes {
		if changes[i].Primary {
			p = append(p, changes[i].P)
		}
	}
	adjusted := stats.Holm(p)
	for i := range changes {
		x := &changes[i]
		if !x.Primary {
			x.Verdict = stats.Exploratory
			continue
		}
		x.Adjusted, adjusted = adjusted[0], adjusted[1:]
		switch {
		case x.Adjusted >= 0.05:
			x.Verdict = stats.Inconclusive
		case x.Change > 0:
			x.Verdict = stats.Slower
		default:
			x.Verdict = stats.Faster
		}
	}
}

// samples are logarithms whose sign makes positive worse: of values, or of the ratios to the
// baseline.
func (x *table) samples(p *record.Plan, of, point, environment string, m record.Metric, key string) []float64 {
	var all []float64
	add := func(pair stats.Pair) {
		if l, ok := pair.LogRatio(stats.Direction(m.Better)); ok {
			all = append(all, l)
		}
	}
	if of == ComparesOverheads {
		for _, pair := range x.pairs(point, environment, p.Baseline, m.Name, key) {
			add(pair)
		}
		return all
	}
	for _, v := range x.figures(point, environment, m.Name, key) {
		add(stats.Pair{Env: v, Base: 1})
	}
	return all
}

func sameMachine(a, b record.Machine) bool {
	return a.Host == b.Host && a.CPU == b.CPU && a.Cores == b.Cores && a.MemoryBytes == b.MemoryBytes
}

// differences are reasons for which two series may have measured different things.
func differences(a, b *record.Plan) []string {
	var all []string
	known := true // by key
	for _, e := range a.Environments {
		i := slices.IndexFunc(b.Environments, func(o record.Environment) bool { return o.Name == e.Name })
		if i < 0 {
			continue
		}
		if len(e.Keys) == 0 || len(b.Environments[i].Keys) == 0 {
			known = false
		} else if keys := record.OtherKeys(e.Keys, b.Environments[i].Keys); len(keys) > 0 {
			all = append(all, fmt.Sprintf("the jobs of %s differ: %s", e.Name, strings.Join(keys, ", ")))
		}
		if e.Image == "" || b.Environments[i].Image == "" {
			continue
		}
		if b.Environments[i].Image != e.Image {
			all = append(all, fmt.Sprintf("%s has another image: %s and %s", e.Name, e.Image, b.Environments[i].Image))
		}
	}
	if a.Reuse != b.Reuse {
		all = append(all, "points shared containers and guests in one of the two alone")
	}
	if a.Study != b.Study || !known && a.Jobs != b.Jobs {
		all = append(all, fmt.Sprintf("the studies differ: %s and %s", a.Study, b.Study))
	}
	return all
}

// Sentences say what changed.
func (c *Comparison) Sentences() []string {
	var all []string
	if c.Of == ComparesOverheads {
		all = append(all, "The machines differ: what is compared is each environment by its own baseline.")
	} else {
		all = append(all, "One machine at two times: whatever changed between them is included. To compare two versions, measure them alternately in one study.")
	}
	for _, d := range c.Differences {
		all = append(all, "Not the same: "+d+".")
	}
	unclear := 0
	for _, x := range c.Changes {
		switch x.Verdict {
		case stats.Slower, stats.Faster:
			all = append(all, fmt.Sprintf("%s: %s %s.", x.Environment, strings.TrimSuffix(x.Metric+" at "+x.Point, " at "), changeText(stats.Finding{Estimate: x.Change, NinetyFive: x.NinetyFive})))
		case stats.Inconclusive:
			unclear++
		}
	}
	if unclear > 0 {
		all = append(all, fmt.Sprintf("%d of %d primary figures show no difference that chance does not explain. That is no proof that they are equal.", unclear, primary(c.Changes)))
	}
	if n := len(c.Missing); n > 0 && len(c.Changes) > 0 {
		all = append(all, fmt.Sprintf("%s has no figure of %s.", c.To, listText(c.Missing)))
	}
	if len(c.Changes) == 0 {
		all = append(all, "They have no figure in common.")
	}
	return all
}

// mostNamed bounds the figures that a sentence names.
const mostNamed = 10

func listText(names []string) string {
	if n := len(names) - mostNamed; n > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:mostNamed], ", "), n)
	}
	return strings.Join(names, ", ")
}

func primary(changes []Change) (n int) {
	for i := range changes {
		if changes[i].Primary {
			n++
		}
	}
	return n
}

// Decided reports whether all primary figures are slower or faster, there is one, and none is
// missing.
func (c *Comparison) Decided() bool {
	return primary(c.Changes) > 0 && len(c.Missing) == 0 && !slices.ContainsFunc(c.Changes, func(x Change) bool { return x.Verdict == stats.Inconclusive })
}

// Worse reports whether a primary figure is slower.
func (c *Comparison) Worse() bool {
	return slices.ContainsFunc(c.Changes, func(x Change) bool { return x.Verdict == stats.Slower })
}
