package study

import (
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/spec"
)

// checkReuse reports what a study cannot have whose points share containers: what is known of a
// whole container alone.
func (s *Study) checkReuse(d *spec.Document) {
	const remedy = "leave it out, or `reuse: block`"
	for _, name := range s.MetricNames {
		if b := s.Metrics[name].Builtin; b != "" && b != "seconds" {
			d.Problem("metrics."+name+".builtin", remedy, "metrics.%s: %s is known of a whole container, which several points share", name, b)
		}
	}
	if s.Copies.Count != "1" {
		d.Problem("copies.count", remedy, "copies.count: copies have a container of their own")
	}
	if i := slices.Index(s.Fair, "out-of-cache"); i >= 0 {
		d.Problem(fmt.Sprintf("fair[%d]", i), remedy, "fair: the memory of processes is known of a whole container, which several points share")
	}
	if s.Method.Name == Beserra {
		d.Problem("method.name", "leave out `reuse: block`", "method.name: %s measures each point for itself", Beserra)
	}
}
