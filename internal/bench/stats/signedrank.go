package stats

import (
	"cmp"
	"math"
	"slices"
)

// exactPairs bounds the pairs of an exact signed-rank distribution: its work grows with
// their third power. Beyond, the normal approximation is exact enough, and its tails err
// to the safe side.
const exactPairs = 200

// Interval is a closed confidence interval; infinite where too few values are there.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Width is 0 for a point, and infinite where there is no interval.
func (i Interval) Width() float64 {
	if w := i.High - i.Low; !math.IsNaN(w) {
		return w
	}
	return math.Inf(1)
}

// Within reports whether the interval is in another one, its ends included.
func (i Interval) Within(o Interval) bool { return i.Low >= o.Low && i.High <= o.High }

// Apart reports whether the interval shares no value with another one.
func (i Interval) Apart(o Interval) bool { return i.High < o.Low || i.Low > o.High }

// steps returns the probabilities of the sums of weights that each count with one half.
func steps(weights []int) []float64 {
	total := 0
	for _, w := range weights {
		total += w
	}
	d := make([]float64, total+1)
	d[0] = 1
	reach := 0
	for _, w := range weights {
		reach += w
		for s := reach; s >= 0; s-- {
			v := 0.0
			if s <= reach-w {
				v = d[s]
			}
			if s >= w {
				v += d[s-w]
			}
			d[s] = v / 2
		}
	}
	return d
}

// rankOfInterval returns k: the interval of n values at a level runs from the k-th
// smallest to the k-th largest Walsh average. It is 0 where n is too small.
func rankOfInterval(n int, level float64) int {
	half := (1 - level) / 2
	if n > exactPairs {
		m := float64(n) * float64(n+1)
		z := normalQuantile(1 - half)
		return max(0, int(m/4-z*math.Sqrt(m*float64(2*n+1)/24)-0.5))
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	k, sum := 0, 0.0
	for _, p := range steps(ranks) {
		if sum += p; sum > half*(1+1e-12) {
			break
		}
		k++
	}
	return k
}

// HodgesLehmann is the median of the Walsh averages; NaN without values.
func HodgesLehmann(x []float64) float64 {
	n := len(x)
	if n == 0 {
		return math.NaN()
	}
	s, m := sorted(x), n*(n+1)/2
	low := walshAt(s, (m+1)/2, math.Inf(-1))
	high := walshAt(s, m/2+1, math.Inf(1))
	return average(low, high, math.NaN())
}

// WalshInterval is the interval of the centre of a symmetric distribution at a level such
// as 0.90.
func WalshInterval(x []float64, level float64) Interval {
	n := len(x)
	k := 0
	if n > 0 {
		k = rankOfInterval(n, level)
	}
	if k < 1 {
		return Interval{math.Inf(-1), math.Inf(1)}
	}
	s, m := sorted(x), n*(n+1)/2
	return Interval{walshAt(s, k, math.Inf(-1)), walshAt(s, m+1-k, math.Inf(1))}
}

// SignedRank is the two-sided p-value of the hypothesis that the sign of each value is a
// fair coin. Zeros are ranked and then left out (Pratt); ties share the mean of their ranks.
func SignedRank(x []float64) float64 {
	size := make([]float64, len(x))
	for i, v := range x {
		size[i] = math.Abs(v)
	}
	var weights []int // doubled midranks
	w, squares := 0, 0.0
	for i, r := range doubledRanks(size) {
		if x[i] == 0 {
			continue
		}
		weights = append(weights, r)
		squares += float64(r) * float64(r)
		if x[i] > 0 {
			w += r
		}
	}
	if len(weights) == 0 {
		return 1
	}
	if len(weights) > exactPairs {
		total := 0
		for _, r := range weights {
			total += r
		}
		away := math.Abs(float64(w)-float64(total)/2) - 1 // one doubled rank of continuity
		return math.Min(1, math.Erfc(max(0, away)/math.Sqrt(squares/4)/math.Sqrt2))
	}
	return twoSided(steps(weights), w)
}

// twoSided doubles the smaller tail of a distribution at a value.
func twoSided(d []float64, at int) float64 {
	low, high := 0.0, 0.0
	for s, p := range d {
		if s <= at {
			low += p
		}
		if s >= at {
			high += p
		}
	}
	return math.Min(1, 2*math.Min(low, high))
}

// doubledRanks are twice the midranks of values, which are whole numbers.
func doubledRanks(x []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	ranks := make([]int, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			ranks[order[k]] = i + 1 + j
		}
		i = j
	}
	return ranks
}

// normalQuantile is the quantile of the standard normal distribution.
func normalQuantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }

// LeastBlocks is the least number n of pairs with which a test of a family can be
// significant at all at 5 %: 2^(1−n) ≤ 0.05/family.
func LeastBlocks(family int) int {
	return 1 + int(math.Ceil(math.Log2(float64(max(family, 1))/0.05)-1e-9))
}
