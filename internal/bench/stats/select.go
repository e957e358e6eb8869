package stats

import (
	"math"
	"slices"
)

// key maps floats to integers of the same order.
func key(x float64) int64 {
	b := int64(math.Float64bits(x))
	if b < 0 {
		return math.MinInt64 - b
	}
	return b
}

func unkey(k int64) float64 {
	if k < 0 {
		return math.Float64frombits(uint64(math.MinInt64 - k))
	}
	return math.Float64frombits(uint64(k))
}

// smallest returns the least float v, from lo to hi, for which count(v) is at least k. It
// bisects the bits of floats: at most 64 counts, and an exact order statistic.
func smallest(lo, hi float64, k int, count func(v float64) int) float64 {
	a, b := key(lo), key(hi)
	for a < b {
		mid := a + int64(uint64(b-a)/2) // b-a wraps into the right unsigned distance
		if count(unkey(mid)) >= k {
			b = mid
		} else {
			a = mid + 1
		}
	}
	return unkey(a)
}

// average is (a+b)/2. The average of opposite infinities is unknown: undefined stands for it.
func average(a, b, undefined float64) float64 {
	v := a/2 + b/2
	if math.IsNaN(v) {
		return undefined
	}
	return v
}

// walshAt returns the k-th smallest, from 1, of the averages (x_i+x_j)/2 with i ≤ j of
// sorted values. It takes O(n) memory and O(n) time a step (Monahan, ACM TOMS 10, 1984).
func walshAt(x []float64, k int, undefined float64) float64 {
	n := len(x)
	return smallest(x[0], x[n-1], k, func(v float64) int {
		count, j := 0, n-1
		for i := 0; i < n && j >= i; i++ {
			for j >= i && average(x[i], x[j], undefined) > v {
				j--
			}
			count += j - i + 1
		}
		return count
	})
}

// differenceAt returns the k-th smallest, from 1, of all x_i − y_j of sorted values.
func differenceAt(x, y []float64, k int, undefined float64) float64 {
	difference := func(a, b float64) float64 {
		if d := a - b; !math.IsNaN(d) {
			return d
		}
		return undefined
	}
	return smallest(math.Inf(-1), math.Inf(1), k, func(v float64) int {
		count, j := 0, 0 // y[j:] are large enough
		for _, a := range x {
			for j < len(y) && difference(a, y[j]) > v {
				j++
			}
			count += len(y) - j
		}
		return count
	})
}

// sorted returns a sorted copy.
func sorted(x []float64) []float64 {
	s := slices.Clone(x)
	slices.Sort(s)
	return s
}

// median of sorted values.
func median(s []float64) float64 {
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	if n%2 == 1 {
		return s[n/2]
	}
	if s[n/2-1] == s[n/2] {
		return s[n/2]
	}
	return s[n/2-1]/2 + s[n/2]/2
}
