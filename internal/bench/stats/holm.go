package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm adjusts the p-values of a family. A value below 0.05 is significant with at most 5 %
// of families having any false one.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted, most := make([]float64, len(p)), 0.0
	for rank, i := range order {
		most = math.Min(1, math.Max(most, float64(len(p)-rank)*p[i]))
		adjusted[i] = most
	}
	return adjusted
}
