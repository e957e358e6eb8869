package stats

import "math"

// Looks returns the numbers of counted blocks after which a study may stop: from the least
// number to the greatest, each about 1.4 times the one before. The family of primary
// contrasts sets a least number of its own (LeastBlocks). A study of an exact number has
// least = most, and that look only.
func Looks(least, most, family int) []int {
	if least >= most {
		return []int{most}
	}
	n := min(max(least, LeastBlocks(family)), most)
	var looks []int
	for n < most {
		looks = append(looks, n)
		n = int(math.Round(1.4 * float64(n)))
		if float64(most) < 1.25*float64(n) { // too near to the last look for one of its own
			break
		}
	}
	return append(looks, most)
}

// Precise reports whether a study may stop: the 90 % interval of every primary contrast is
// narrower than ± half the margin. Significance has no say in it. Contrasts that cannot
// get a verdict do not prolong a study.
func Precise(contrasts []Contrast, margin float64) bool {
	for i := range contrasts {
		c := &contrasts[i]
		if !c.Primary || c.Failed > 0 || len(c.Withheld) > 0 {
			continue
		}
		if l, _ := logRatios(c.Pairs, c.Better); WalshInterval(l, 0.90).Width() > math.Log1p(margin) {
			return false
		}
	}
	return true
}

// Forecast is the number of blocks with which a contrast would likely get a verdict, as an
// interval shrinks with the root of its blocks. It is 0 where nothing is known.
func Forecast(estimate float64, ninety Interval, blocks int, margin float64) int {
	half := ninety.Width() / 2
	if blocks == 0 || math.IsInf(half, 0) || math.IsNaN(estimate) {
		return 0
	}
	away := math.Abs(estimate)
	needed := max(math.Log1p(margin)-away, away/1.2) // as equivalent, or as slower; 95 % is about 1.2 times 90 %
	ratio := half / needed
	if ratio > 1e3 {
		return 0
	}
	return max(blocks+1, int(math.Ceil(float64(blocks)*ratio*ratio)))
}
