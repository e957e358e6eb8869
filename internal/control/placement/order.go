package placement

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
)

// soon is a start that counts as at once.
const soon = 10 * time.Second

// Start is when a site expects to start a run; zero: the site does not know, or cannot.
type Start = time.Time

// Order returns the indexes of the sites in the order that a job wants. Only
// spec.OrderSoonest reads starts, one for each site. A site without a start comes last.
func Order(order string, sites []spec.Site, starts []Start, now time.Time) []int {
	places := make([]int, len(sites))
	for i := range places {
		places[i] = i
	}
	switch order {
	case spec.OrderCheapest:
		prices, _ := spec.Comparable(sites) // those of other currencies come last
		slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(prices[a], prices[b]) })
	case spec.OrderSoonest:
		until := func(i int) time.Duration {
			if starts[i].IsZero() {
				return math.MaxInt64
			}
			if d := starts[i].Sub(now); d > soon {
				return d
			}
			return 0
		}
		slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(until(a), until(b)) })
	}
	return places
}
