package stats

import "math"

// Mean of values; NaN without any.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Deviation is the sample standard deviation (divisor n−1); NaN below two values.
func Deviation(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	mean, squares := Mean(x), 0.0
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(x)-1))
}

// Median of values; NaN without any.
func Median(x []float64) float64 { return median(sorted(x)) }

// outlierScore is Iglewicz and Hoaglin's bound of the modified z-score (ASQC Basic
// References in Quality Control 16, 1993).
const outlierScore = 3.5

// Outliers are the indexes of values far from the median, by the median absolute
// deviation. They are reported; no method but Beserra leaves values out.
func Outliers(x []float64) []int {
	centre := Median(x)
	away := make([]float64, len(x))
	for i, v := range x {
		away[i] = math.Abs(v - centre)
	}
	spread := Median(away)
	var found []int
	for i, a := range away {
		if spread > 0 && 0.6745*a/spread > outlierScore {
			found = append(found, i)
		}
	}
	return found
}

// Drift is how values move with their order.
type Drift struct {
	// Slope is the median change per step (Theil and Sen).
	Slope float64 `json:"slope"`
	// P is the two-sided p-value of Mann and Kendall's test of no trend.
	P float64 `json:"p"`
}

// Trend looks for a drift. Of more than 1,000 values it looks at 1,000, evenly chosen.
func Trend(x []float64) Drift {
	step := 1.0
	const most = 1000
	if len(x) > most {
		thin := make([]float64, most)
		step = float64(len(x)) / float64(most)
		for i := range thin {
			thin[i] = x[int(float64(i)*step)]
		}
		x = thin
	}
	n := len(x)
	if n < 3 {
		return Drift{P: 1}
	}
	var slopes []float64
	s := 0
	for i := range x {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (x[j]-x[i])/float64(j-i))
			switch {
			case x[j] > x[i]:
				s++
			case x[j] < x[i]:
				s--
			}
		}
	}
	return Drift{Slope: Median(slopes) / step, P: kendall(x, s)}
}

// kendall is the p-value of Kendall's S: exact without ties for up to 50 values, else by
// the normal approximation with the variance for ties (Kendall, Rank Correlation Methods).
func kendall(x []float64, s int) float64 {
	n := len(x)
	ties, variance := false, float64(n*(n-1)*(2*n+5))
	order := sorted(x)
	for i := 0; i < n; {
		run := 1
		for i+run < n && order[i+run] == order[i] {
			run++
		}
		if run > 1 {
			ties = true
			variance -= float64(run * (run - 1) * (2*run + 5))
		}
		i += run
	}
	if variance <= 0 {
		return 1
	}
	if ties || n > 50 {
		return math.Min(1, math.Erfc(max(0, math.Abs(float64(s))-1)/math.Sqrt(variance/18)/math.Sqrt2))
	}
	pairs := n * (n - 1) / 2
	inversions := []float64{1} // probabilities, by their number
	for k := 2; k <= n; k++ {
		next := make([]float64, len(inversions)+k-1)
		for i, p := range inversions {
			for j := range k {
				next[i+j] += p / float64(k)
			}
		}
		inversions = next
	}
	return twoSided(inversions, (pairs-s)/2)
}
