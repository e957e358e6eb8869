package evaluate

import (
	"maps"
	"slices"
	"strconv"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// A cell is one measurement of a point in a block. Cells of different epochs are not paired.
type cell struct {
	point, environment string
	again              bool
	block, epoch       int
}

// A table has the rows of a study by what they measure.
type table struct {
	cells map[cell]*record.Row     // measured, in counted blocks
	order map[series][]cell        // in the order of time
	all   map[series][]*record.Row // failed ones and the block that warms up, too
	at    map[string][]series      // those of a point with cells
}

// A series is all that was measured of an environment at a point.
type series struct{ point, environment string }

func index(rows []record.Row) *table {
	x := &table{cells: map[cell]*record.Row{}, order: map[series][]cell{}, all: map[series][]*record.Row{}, at: map[string][]series{}}
	for i := range rows {
		r := &rows[i]
		at := series{r.Point, r.Environment}
		x.all[at] = append(x.all[at], r)
		if !r.Counts() {
			continue
		}
		c := cell{r.Point, r.Environment, r.Again, r.Block, r.Epoch}
		if x.cells[c] == nil {
			if len(x.order[at]) == 0 {
				x.at[at.point] = append(x.at[at.point], at)
			}
			x.order[at] = append(x.order[at], c)
		}
		x.cells[c] = r
	}
	return x
}

func figure(r *record.Row, metric, key string) (float64, bool) {
	for _, f := range r.Metrics[metric] {
		if f.Key == key {
			return f.Value, true
		}
	}
	return 0, false
}

// pairs returns the figures of an environment and the baseline of the same block and epoch,
// in the order of time.
func (x *table) pairs(point, environment, baseline, metric, key string) []stats.Pair {
	return x.paired(point, metric, key, cell{environment: environment}, cell{environment: baseline})
}

// again returns the A/A pairs of the baseline.
func (x *table) again(point, baseline, metric, key string) []stats.Pair {
	return x.paired(point, metric, key, cell{environment: baseline, again: true}, cell{environment: baseline})
}

// A side is a figure of an environment at a point.
type side struct{ point, environment, metric, key string }

// between returns the pairs of two figures that were measured in the same block, without
// those of A/A.
func (x *table) between(one, other side) []stats.Pair {
	var pairs []stats.Pair
	for _, c := range x.order[series{one.point, one.environment}] {
		if c.again {
			continue
		}
		base := x.cells[cell{other.point, other.environment, false, c.block, c.epoch}]
		if base == nil || !pairable(base, x.cells[c]) {
			continue
		}
		a, ok := figure(x.cells[c], one.metric, one.key)
		b, ok2 := figure(base, other.metric, other.key)
		if ok && ok2 {
			pairs = append(pairs, stats.Pair{Env: a, Base: b})
		}
	}
	return pairs
}

// pairable reports whether figures of one block may be paired: those of one site have to be
// of the same hosts. Other sites have others, as the study wants it.
func pairable(one, other *record.Row) bool {
	return one.Site != other.Site || slices.Equal(one.Hosts, other.Hosts)
}

func (x *table) paired(point, metric, key string, one, other cell) []stats.Pair {
	var pairs []stats.Pair
	for _, c := range x.order[series{point, one.environment}] {
		if c.again != one.again {
			continue
		}
		base := x.cells[cell{point, other.environment, other.again, c.block, c.epoch}]
		if base == nil || !pairable(base, x.cells[c]) {
			continue
		}
		a, ok := figure(x.cells[c], metric, key)
		b, ok2 := figure(base, metric, key)
		if ok && ok2 {
			pairs = append(pairs, stats.Pair{Env: a, Base: b})
		}
	}
	return pairs
}

// failures counts the measurements of an environment in counted blocks, and those that still
// failed at their last try, or were given up.
func (x *table) failures(point, environment string) (failed, of int) {
	last := map[cell]*record.Row{}
	for _, r := range x.all[series{point, environment}] {
		if r.Block > 0 {
			last[cell{r.Point, r.Environment, r.Again, r.Block, 0}] = r
		}
	}
	for _, r := range last {
		if r.Status != record.OK {
			failed++
		}
	}
	return failed, len(last)
}

// keys returns the keys of a metric's figures at a point, as the rows have them.
func (x *table) keys(point string, m record.Metric) []string {
	if !m.Sweep {
		return []string{""}
	}
	found := map[string]bool{}
	for _, at := range x.at[point] {
		for _, c := range x.order[at] {
			for _, f := range x.cells[c].Metrics[m.Name] {
				found[f.Key] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		one, _ := strconv.ParseFloat(a, 64)
		two, _ := strconv.ParseFloat(b, 64)
		switch {
		case one < two:
			return -1
		case one > two:
			return 1
		}
		return 0
	})
}

// figures returns the counted figures of an environment, without those of A/A.
func (x *table) figures(point, environment, metric, key string) []float64 {
	var all []float64
	for _, c := range x.order[series{point, environment}] {
		if !c.again {
			if v, ok := figure(x.cells[c], metric, key); ok {
				all = append(all, v)
			}
		}
	}
	return all
}

// together reports whether two environments were measured in the same epochs: on the same hosts.
func (x *table) together(point, a, b string) bool {
	epochs := func(environment string) map[int]bool {
		all := map[int]bool{}
		for _, c := range x.order[series{point, environment}] {
			if !c.again {
				all[c.epoch] = true
			}
		}
		return all
	}
	return maps.Equal(epochs(a), epochs(b))
}

func (x *table) values(p *record.Plan) []Values {
	var all []Values
	for _, point := range p.Points {
		for _, e := range point.Environments {
			for _, m := range p.Metrics {
				for _, k := range x.keys(point.ID, m) {
					if f := x.figures(point.ID, e, m.Name, k); len(f) > 0 {
						all = append(all, Values{point.ID, e, m.Name, k, f, stats.Median(f)})
					}
				}
			}
		}
	}
	return all
}

// blocks counts the counted blocks in which everything was measured.
func (x *table) blocks(p *record.Plan) int {
	wanted, measured := 0, map[int]int{}
	for _, point := range p.Points {
		for _, e := range p.Environments {
			if e.Dropped != "" || !slices.Contains(point.Environments, e.Name) {
				continue
			}
			wanted++
			if e.Name == p.Baseline {
				wanted++ // A/A
			}
			seen := map[cell]bool{}
			for _, c := range x.order[series{point.ID, e.Name}] {
				c.epoch = 0
				if !seen[c] && (!c.again || e.Name == p.Baseline) {
					seen[c] = true
					measured[c.block]++
				}
			}
		}
	}
	whole := 0
	for block := 1; block <= p.Most; block++ {
		if wanted > 0 && measured[block] == wanted {
			whole++
		}
	}
	return whole
}
