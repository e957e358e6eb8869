package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

type reference struct {
	Paired []struct {
		X     []float64
		P     float64
		Walsh []referenceInterval
	}
	Unpaired []struct {
		X, Y  []float64
		P     float64
		Shift referenceInterval
	}
	One []struct {
		X                []float64
		Mean, SD, Median float64
		TrimmedMean      float64  `json:"trimmed_mean"`
		TrimmedSD        *float64 `json:"trimmed_sd"`
		KendallP         float64  `json:"kendall_p"`
		TheilSen         float64  `json:"theil_sen"`
	}
	Holm []struct{ P, Adjusted []float64 }
}

type referenceInterval struct {
	Level, Estimate float64
	Low, High       *float64
}

// near fails the test where got is not the reference's value, whose nil is an infinite one.
func near(t *testing.T, what string, got float64, want *float64) {
	t.Helper()
	if want == nil {
		if !math.IsInf(got, 0) {
			t.Errorf("%s is %v, want an infinite one", what, got)
		}
		return
	}
	if !(math.Abs(got-*want) <= 1e-9*math.Max(1, math.Abs(*want))) {
		t.Errorf("%s is %.12g, want %.12g", what, got, *want)
	}
}

// TestReference holds every method against scipy and full enumeration; testdata has the
// script that made the figures.
func TestReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Paired) < 10 || len(r.Unpaired) < 5 || len(r.One) < 3 || len(r.Holm) < 2 {
		t.Fatalf("the reference is not whole: %d, %d, %d, %d", len(r.Paired), len(r.Unpaired), len(r.One), len(r.Holm))
	}
	for i, c := range r.Paired {
		what := fmt.Sprintf("paired %d (n=%d): ", i, len(c.X))
		near(t, what+"p", SignedRank(c.X), &c.P)
		for _, w := range c.Walsh {
			near(t, what+"estimate", HodgesLehmann(c.X), &w.Estimate)
			got := WalshInterval(c.X, w.Level)
			near(t, fmt.Sprintf("%slow at %v", what, w.Level), got.Low, w.Low)
			near(t, fmt.Sprintf("%shigh at %v", what, w.Level), got.High, w.High)
		}
	}
	for i, c := range r.Unpaired {
		what := fmt.Sprintf("unpaired %d (%d, %d): ", i, len(c.X), len(c.Y))
		near(t, what+"p", new(Unpaired).MannWhitney(c.X, c.Y), &c.P)
		estimate, interval := new(Unpaired).Shift(c.X, c.Y, c.Shift.Level)
		near(t, what+"shift", estimate, &c.Shift.Estimate)
		near(t, what+"low", interval.Low, c.Shift.Low)
		near(t, what+"high", interval.High, c.Shift.High)
	}
	for i, c := range r.One {
		what := fmt.Sprintf("one %d (n=%d): ", i, len(c.X))
		near(t, what+"mean", Mean(c.X), &c.Mean)
		near(t, what+"sd", Deviation(c.X), &c.SD)
		near(t, what+"median", Median(c.X), &c.Median)
		trimmed := Trim(c.X)
		near(t, what+"trimmed mean", trimmed.Mean, &c.TrimmedMean)
		if c.TrimmedSD != nil {
			near(t, what+"trimmed sd", trimmed.Deviation, c.TrimmedSD)
			near(t, what+"cv", trimmed.CV*trimmed.Mean, c.TrimmedSD)
		}
		drift := Trend(c.X)
		near(t, what+"trend", drift.P, &c.KendallP)
		near(t, what+"slope", drift.Slope, &c.TheilSen)
	}
	for _, c := range r.Holm {
		for i, p := range Holm(c.P) {
			near(t, fmt.Sprintf("Holm %v [%d]", c.P, i), p, &c.Adjusted[i])
		}
	}
}

// TestPublishedCriticalValues holds the distribution against the table of Wilcoxon and
// Wilcox (Some Rapid Approximate Statistical Procedures, 1964): the greatest rank sum that
// is significant at 5 %, two-sided.
func TestPublishedCriticalValues(t *testing.T) {
	for n, critical := range map[int]int{6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 15: 25, 20: 52, 25: 89} {
		if got := rankOfInterval(n, 0.95) - 1; got != critical {
			t.Errorf("n=%d: the critical value is %d, published is %d", n, got, critical)
		}
	}
}

func TestLeastBlocks(t *testing.T) {
	for family, want := range map[int]int{1: 6, 25: 10, 26: 11, 102: 12, 103: 13} {
		if got := LeastBlocks(family); got != want {
			t.Errorf("family of %d: %d blocks, want %d", family, got, want)
		}
	}
	for n := 2; n < 30; n++ { // the least p of n pairs is 2^(1−n)
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(i + 1)
		}
		if p, want := SignedRank(x), math.Ldexp(1, 1-n); math.Abs(p-want) > 1e-15 {
			t.Errorf("n=%d: the least p is %v, want %v", n, p, want)
		}
	}
}
