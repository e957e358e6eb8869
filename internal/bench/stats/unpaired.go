package stats

import "math"

// exactValues bounds the values of both samples of an exact Mann–Whitney distribution.
const exactValues = 100

// Unpaired compares samples that are not paired. It keeps the exact distributions of
// ranks without ties, which samples of one size share. The zero value is ready for use.
type Unpaired struct{ sums map[[2]int][]float64 }

// untied are the probabilities of the sum of m of the ranks 1 to n.
func (u *Unpaired) untied(m, n int) []float64 {
	if d := u.sums[[2]int{m, n}]; d != nil {
		return d
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	if u.sums == nil {
		u.sums = map[[2]int][]float64{}
	}
	d := rankSums(ranks, m)
	u.sums[[2]int{m, n}] = d
	return d
}

// MannWhitney is the two-sided p-value of the hypothesis that two samples come from one
// distribution, by the exact permutation distribution of the rank sum given the ties
// (Mann and Whitney, Ann. Math. Statist. 18, 1947).
func (u *Unpaired) MannWhitney(x, y []float64) float64 {
	if len(x) == 0 || len(y) == 0 {
		return 1
	}
	all := make([]float64, 0, len(x)+len(y))
	ranks := doubledRanks(append(append(all, x...), y...))
	w, total, squares := 0, 0, 0.0
	for i, r := range ranks {
		if i < len(x) {
			w += r
		}
		total += r
		squares += float64(r) * float64(r)
	}
	m, n := float64(len(x)), float64(len(ranks))
	if len(ranks) > exactValues {
		mean := float64(total) / n
		variance := m * (n - m) / (n - 1) * (squares/n - mean*mean)
		if variance <= 0 {
			return 1
		}
		away := math.Abs(float64(w)-m*mean) - 1
		return math.Min(1, math.Erfc(max(0, away)/math.Sqrt(variance)/math.Sqrt2))
	}
	if distinct(ranks) {
		return twoSided(u.untied(len(x), len(ranks)), w/2)
	}
	return twoSided(rankSums(ranks, len(x)), w)
}

// distinct reports whether no two doubled ranks are the same.
func distinct(ranks []int) bool {
	seen := make([]bool, 2*len(ranks)+1)
	for _, r := range ranks {
		if seen[r] {
			return false
		}
		seen[r] = true
	}
	return true
}

// rankSums returns the probabilities of the sum of m ranks that are drawn from all.
func rankSums(ranks []int, m int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	chosen := make([][]float64, m+1)
	for i := range chosen {
		chosen[i] = make([]float64, total+1)
	}
	chosen[0][0] = 1
	reach := 0
	for i, r := range ranks {
		reach += r
		for k := min(i+1, m); k > 0; k-- {
			for s := reach; s >= r; s-- {
				chosen[k][s] += chosen[k-1][s-r]
			}
		}
	}
	orderings := 0.0
	for _, c := range chosen[m] {
		orderings += c
	}
	for s := range chosen[m] {
		chosen[m][s] /= orderings
	}
	return chosen[m]
}

// Shift is the Hodges–Lehmann estimate of how far x lies above y, the median of all
// differences, and its interval at a level by the Mann–Whitney distribution.
func (u *Unpaired) Shift(x, y []float64, level float64) (float64, Interval) {
	everything := Interval{math.Inf(-1), math.Inf(1)}
	if len(x) == 0 || len(y) == 0 {
		return math.NaN(), everything
	}
	a, b, m := sorted(x), sorted(y), len(x)*len(y)
	estimate := average(differenceAt(a, b, (m+1)/2, math.Inf(-1)), differenceAt(a, b, m/2+1, math.Inf(1)), math.NaN())
	k := u.rankOfShift(len(x), len(y), level)
	if k < 1 {
		return estimate, everything
	}
	return estimate, Interval{differenceAt(a, b, k, math.Inf(-1)), differenceAt(a, b, m+1-k, math.Inf(1))}
}

func (u *Unpaired) rankOfShift(m, n int, level float64) int {
	half := (1 - level) / 2
	if m+n > exactValues {
		mn := float64(m) * float64(n)
		return max(0, int(mn/2-normalQuantile(1-half)*math.Sqrt(mn*float64(m+n+1)/12)-0.5))
	}
	k, sum := 0, 0.0
	for _, p := range u.untied(m, m+n)[m*(m+1)/2:] {
		if sum += p; sum > half*(1+1e-12) {
			break
		}
		k++
	}
	return k
}
