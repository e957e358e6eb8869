package evaluate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

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

// components are those by which MPI may send messages: modules of Open MPI, of UCX and of libfabric. Open MPI maps some
// that it does not use.
var components = regexp.MustCompile(`^(mca_(btl|smsc|osc)_|libuc[tsp]|libuct_|libfabric|libpsm|lib[a-z0-9]+-fi)[a-z0-9_.-]*`)

// transportFlags are about environments whose MPI processes may send messages otherwise than those of the baseline.
func (x *table) transportFlags(p *record.Plan) (all []Flag) {
	for _, point := range p.Points {
		base := x.usual(point.ID, p.Baseline)
		for _, e := range p.Environments {
			own := x.usual(point.ID, e.Name)
			if e.Name == p.Baseline || own.rows == 0 || base.rows == 0 {
				continue
			}
			for _, difference := range own.differences(base) {
				text := fmt.Sprintf("MPI may send messages otherwise than in %s: %s", p.Baseline, difference)
				at := slices.IndexFunc(all, func(f Flag) bool { return f.Environment == e.Name && f.Text == text })
				if at < 0 {
					all, at = append(all, Flag{Environment: e.Name, Text: text}), len(all)
				}
				all[at].Rows += own.rows
			}
		}
	}
	return all
}

// usual is what MPI processes had in most measurements of an environment.
type usual struct {
	rows       int // in which there were some
	cma        string
	settings   map[string]string
	components map[string]int // rows that have mapped each
}

func (x *table) usual(point, environment string) usual {
	u := usual{settings: map[string]string{}, components: map[string]int{}}
	cma, settings := map[string]int{}, map[string]map[string]int{}
	for _, c := range x.order[series{point, environment}] {
		r := x.cells[c]
		if r.CMA == "" {
			continue
		}
		u.rows++
		cma[r.CMA]++
		for name, value := range r.MPISettings {
			if settings[name] == nil {
				settings[name] = map[string]int{}
			}
			settings[name][value]++
		}
		for file := range r.Programs {
			if name := path.Base(file); components.MatchString(name) {
				u.components[name]++
			}
		}
	}
	most := func(counts map[string]int) string {
		for value, n := range counts {
			if 2*n > u.rows {
				return value
			}
		}
		return ""
	}
	u.cma = most(cma)
	for name, counts := range settings {
		if value := most(counts); value != "" {
			u.settings[name] = value
		}
	}
	return u
}

// differences are those to the baseline. What a look has missed decides nothing.
func (u *usual) differences(base usual) (all []string) {
	if u.cma != base.cma && u.cma != "" && base.cma != "" {
		all = append(all, fmt.Sprintf("%s; there, %s", preventions[u.cma], preventions[base.cma]))
	}
	names := slices.Sorted(maps.Keys(u.settings))
	for _, name := range slices.Sorted(maps.Keys(base.settings)) {
		if _, is := u.settings[name]; !is {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if own, other := u.settings[name], base.settings[name]; own != other {
			all = append(all, fmt.Sprintf("%s is %s; there, %s", name, cmp.Or(own, "not set"), cmp.Or(other, "not set")))
		}
	}
	if min(u.rows, base.rows) < enoughLooks {
		return all
	}
	if only := u.alone(&base); only != "" {
		all = append(all, "it has mapped "+only)
	}
	if only := base.alone(u); only != "" {
		all = append(all, "it has not mapped "+only)
	}
	return all
}

// alone names the components that most measurements of one side have mapped, and none of the other.
func (u *usual) alone(other *usual) string {
	var names []string
	for name, n := range u.components {
		if 2*n > u.rows && other.components[name] == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// preventions are what may prevent direct copies between processes, by record.Row.CMA.
var preventions = map[string]string{ // a table
	"open":       "nothing prevents direct copies between processes (CMA)",
	"restricted": "a security module limits direct copies between processes (CMA)",
	"filtered":   "a filter of system calls may prevent direct copies between processes (CMA)",
	"off":        "its settings forbid direct copies between processes (CMA)",
}
