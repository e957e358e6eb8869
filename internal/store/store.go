// Package store holds what stores of checkpoints share: bounds, the choice of surplus
// checkpoints, trees of this machine, and their comparison with manifests. The stores are
// the packages below.
//
// It knows no sites, no jobs, and no connections to other machines.
package store

import (
	"slices"

	"github.com/bee-hpc/bee/internal/driver"
)

// Generations is how many checkpoints of a run are kept: the last may turn out
// damaged. See Surplus for which.
const Generations = 2

// Surplus parts the checkpoints of a run, oldest first, into those to remove and those to
// keep. of returns the generation of each, and whether it is broken. Whole ones stay rather
// than broken ones, and newer rather than older. But the newest that an attempt left at its
// end stays beside the newest of all: a copy of a running job may be from a bad moment.
func Surplus[T any](list []T, of func(T) (driver.Generation, bool)) (gone, kept []T) {
	var broken, whole []T
	end := -1
	for _, k := range list {
		g, is := of(k)
		if is {
			broken = append(broken, k)
			continue
		}
		if g.Snapshot == 0 {
			end = len(whole)
		}
		whole = append(whole, k)
	}
	if at := len(whole) - Generations; end >= 0 && end < at {
		k := whole[end]
		whole = slices.Insert(slices.Delete(whole, end, end+1), at, k)
	}
	list = append(broken, whole...)
	n := max(0, len(list)-Generations)
	return list[:n], list[n:]
}
