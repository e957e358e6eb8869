package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSpread: the interval of a known spread has it as often as it says, and a claim is judged
// by it.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := func(n int, v float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = 50 * (1 + v*r.NormFloat64())
		}
		return x
	}
	const rounds = 4000
	within, ratios := 0, 0
	for range rounds {
		f := JudgeSpread(values(12, 0.05), nil)
		if i := f.Ninety; i.Low <= math.Log(0.05) && math.Log(0.05) <= i.High {
			within++
		}
		f = JudgeSpread(values(12, 0.05), values(12, 0.1))
		if i := f.Ninety; i.Low <= math.Log(0.5) && math.Log(0.5) <= i.High {
			ratios++
		}
	}
	for name, n := range map[string]int{"one": within, "ratio": ratios} {
		if share := float64(n) / rounds; share < 0.86 || share > 0.94 {
			t.Errorf("%s: the interval of 90 %% has the truth in %.3f of cases", name, share)
		}
	}
	steady := Interval{Low: math.Inf(-1), High: math.Log(0.05)}
	for _, c := range []struct {
		values []float64
		want   Agreement
	}{
		{values(30, 0.01), Agrees}, {values(30, 0.2), Disagrees}, {values(9, 0.01), Undecided}, {[]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, Agrees}, {nil, Undecided},
	} {
		f := JudgeSpread(c.values, nil)
		if got := f.Check(steady); got != c.want {
			t.Errorf("%d values with a spread of %g: %s, expected %s", len(c.values), Spread(c.values), got, c.want)
		}
	}
}

// TestSpreadAboutNothing: values whose mean is 0 have no spread, and no figure that JSON cannot have.
func TestSpreadAboutNothing(t *testing.T) {
	x := []float64{1, -1, 1, -1, 1, -1, 1, -1, 1, -1}
	if f := JudgeSpread(x, nil); f.Verdict != TooFew || f.Estimate != 0 || f.Ninety != (Interval{}) {
		t.Errorf("got %+v", f)
	}
}
