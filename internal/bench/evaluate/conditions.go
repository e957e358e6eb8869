package evaluate

import (
	"fmt"
	"math"
	"slices"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// mostDrift is how much the yardstick may differ from its median.
const mostDrift = 0.1

// drifts are flags about measurements before which the machine computed faster or slower than usual, such as by another
// frequency of its processors. Only those of one boot are compared.
func drifts(rows []record.Row) (all []Flag) {
	yardsticks, usual := map[int][]float64{}, map[int]float64{} // by epoch
	for i := range rows {
		if r := &rows[i]; r.Counts() && r.YardstickSeconds > 0 {
			yardsticks[r.Epoch] = append(yardsticks[r.Epoch], r.YardstickSeconds)
		}
	}
	for epoch, seconds := range yardsticks {
		usual[epoch] = stats.Median(seconds)
	}
	for i := range rows {
		r := &rows[i]
		if !r.Counts() || r.YardstickSeconds <= 0 || math.Abs(r.YardstickSeconds/usual[r.Epoch]-1) <= mostDrift {
			continue
		}
		at := slices.IndexFunc(all, func(f Flag) bool { return f.Environment == r.Environment })
		if at < 0 {
			text := fmt.Sprintf("just before, the machine computed more than %.0f %% faster or slower than usual", 100*mostDrift)
			all, at = append(all, Flag{Environment: r.Environment, Text: text}), len(all)
		}
		all[at].Rows++
	}
	return all
}

// bindings are flags about environments whose processes are bound to cores otherwise than those of the baseline, as MPI
// does by what it sees of the machine. Where the cores differ, that is what withholds the verdict.
func (x *table) bindings(p *record.Plan) (all []Flag) {
	for _, point := range p.Points {
		base, cores := x.bound(point.ID, p.Baseline)
		for _, e := range p.Environments {
			own, ownCores := x.bound(point.ID, e.Name)
			if e.Name == p.Baseline || own == base || own == 0 || base == 0 || ownCores != cores {
				continue
			}
			text := fmt.Sprintf("a process of %s may use %d cores and one of %s %d: they are bound otherwise", e.Name, own, p.Baseline, base)
			at := slices.IndexFunc(all, func(f Flag) bool { return f.Environment == e.Name && f.Text == text })
			if at < 0 {
				all, at = append(all, Flag{Environment: e.Name, Text: text}), len(all)
			}
			all[at].Rows += len(x.order[series{point.ID, e.Name}])
		}
	}
	return all
}

// bound returns the least number of cores of a process in most measurements of an environment, and the number of all its
// cores; 0: not known. A look may miss a process that is bound.
func (x *table) bound(point, environment string) (least, cores int) {
	seen, rows := map[[2]int]int{}, 0
	for _, c := range x.order[series{point, environment}] {
		if r := x.cells[c]; r.Bound > 0 {
			seen[[2]int{r.Bound, r.Cores}]++
			rows++
		}
	}
	for found, n := range seen {
		if 2*n > rows {
			return found[0], found[1]
		}
	}
	return 0, 0
}
