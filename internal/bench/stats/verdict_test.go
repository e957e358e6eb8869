package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// pairs returns n pairs of a ratio, with a small noise of mean 0.
func pairs(n int, ratio, noise float64) []Pair {
	out := make([]Pair, n)
	for i := range out {
		out[i] = Pair{Env: 100 * ratio * math.Exp(noise*math.Sin(float64(3*i+1))), Base: 100}
	}
	return out
}

func TestVerdicts(t *testing.T) {
	again := pairs(10, 1, 0.01)
	for _, c := range []struct {
		name string
		c    Contrast
		want Verdict
	}{
		{"equal", Contrast{Better: Lower, Pairs: pairs(10, 1.01, 0.01), Again: again}, Equivalent},
		{"a significant difference within the margin", Contrast{Better: Lower, Pairs: pairs(10, 1.02, 0.001), Again: again}, Equivalent},
		{"more seconds", Contrast{Better: Lower, Pairs: pairs(10, 1.2, 0.01), Again: again}, Slower},
		{"fewer seconds", Contrast{Better: Lower, Pairs: pairs(10, 0.8, 0.01), Again: again}, Faster},
		{"more flops", Contrast{Better: Higher, Pairs: pairs(10, 1.2, 0.01), Again: again}, Faster},
		{"fewer flops", Contrast{Better: Higher, Pairs: pairs(10, 0.8, 0.01), Again: again}, Slower},
		{"noise", Contrast{Better: Lower, Pairs: pairs(10, 1, 0.3), Again: again}, Inconclusive},
		{"five blocks", Contrast{Better: Lower, Pairs: pairs(5, 1, 0.001), Again: again}, TooFew},
		{"no block", Contrast{Better: Lower}, TooFew},
		{"a failure", Contrast{Better: Lower, Pairs: pairs(10, 1, 0.001), Again: again, Failed: 1, Of: 11}, Failed},
		{"a figure of zero", Contrast{Better: Lower, Pairs: append(pairs(10, 1, 0.001), Pair{0, 0}), Again: again}, Failed},
		{"other binaries", Contrast{Better: Lower, Pairs: pairs(10, 1, 0.001), Again: again, Withheld: []string{"BLAS differs"}}, Withheld},
		{"no A/A", Contrast{Better: Lower, Pairs: pairs(10, 1, 0.001)}, Inconclusive},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.c.Primary = true
			f := Judge([]Contrast{c.c}, 0.05)[0]
			if f.Verdict != c.want {
				t.Errorf("the verdict is %s, want %s: %+v", f.Verdict, c.want, f)
			}
			if _, err := json.Marshal(f); err != nil {
				t.Error(err)
			}
			c.c.Primary = false
			if f := Judge([]Contrast{c.c}, 0.05)[0]; f.Verdict != Exploratory {
				t.Errorf("a secondary metric has the verdict %s", f.Verdict)
			}
		})
	}
}

// TestFamilies leaves a difference undecided that only a single test calls significant.
func TestFamilies(t *testing.T) {
	one := Contrast{Better: Lower, Primary: true, Pairs: pairs(12, 1.1, 0.17), Again: pairs(12, 1, 0.001)}
	alone := Judge([]Contrast{one}, 0.05)[0]
	if alone.Verdict != Slower || alone.P < 0.002 {
		t.Fatalf("alone it is %s with p = %v: the test needs another contrast", alone.Verdict, alone.P)
	}
	for _, f := range Judge(slices.Repeat([]Contrast{one}, 80), 0.05) {
		if f.Verdict != Inconclusive || f.Adjusted < 80*alone.P*0.999 && f.Adjusted < 1 {
			t.Fatalf("among 80 it is %s with an adjusted p of %v", f.Verdict, f.Adjusted)
		}
	}
	secondary := one
	secondary.Primary = false
	if f := Judge(append(slices.Repeat([]Contrast{secondary}, 80), one), 0.05)[80]; f.Verdict != Slower {
		t.Errorf("beside secondary metrics it is %s", f.Verdict)
	}
}

// TestWidenedMargin names the margin that A/A resolves, and decides no gate by it.
func TestWidenedMargin(t *testing.T) {
	c := Contrast{Better: Lower, Primary: true, Pairs: pairs(10, 1, 0.05), Again: pairs(10, 1.06, 0.05)}
	f := Judge([]Contrast{c}, 0.05)[0]
	if f.Verdict != Equivalent || !f.Widened || f.Margin <= 0.06 || f.Margin > 0.2 || f.Decided() {
		t.Errorf("%s within %v, widened: %v, decided: %v", f.Verdict, f.Margin, f.Widened, f.Decided())
	}
}

func TestBound(t *testing.T) {
	if f := (Finding{Ninety: Interval{-0.01, math.Log(1.021)}}); math.Abs(f.Bound()-0.021) > 1e-12 {
		t.Errorf("bound %v", f.Bound())
	}
	if f := (Finding{Ninety: Interval{-0.03, -0.01}}); f.Bound() != 0 {
		t.Errorf("bound %v of what is faster", f.Bound())
	}
}

func TestClaims(t *testing.T) {
	f := Finding{Verdict: Slower, Ninety: Interval{0.08, 0.10}, NinetyFive: Interval{0.07, 0.11}}
	for _, c := range []struct {
		name  string
		claim Interval
		want  Agreement
	}{
		{"inside", Interval{0.05, 0.12}, Agrees},
		{"apart", Interval{-0.05, 0.05}, Disagrees},
		{"at the edge", Interval{0.09, 0.2}, Undecided},
	} {
		if got := f.Check(c.claim); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	f.Verdict = Withheld
	if got := f.Check(Interval{-1, 1}); got != Undecided {
		t.Errorf("withheld: %s", got)
	}
}

func TestLooks(t *testing.T) {
	for _, c := range []struct {
		least, most, family int
		want                []int
	}{
		{10, 32, 25, []int{10, 14, 20, 32}},
		{10, 32, 102, []int{12, 17, 24, 32}},
		{5, 5, 25, []int{5}},
		{10, 11, 1, []int{10, 11}},
		{10, 8, 1, []int{8}},
		{1, 4, 1000, []int{4}},
	} {
		if got := Looks(c.least, c.most, c.family); !slices.Equal(got, c.want) {
			t.Errorf("%d..%d, family of %d: %v, want %v", c.least, c.most, c.family, got, c.want)
		}
	}
}

// TestPreciseIgnoresSignificance stops for narrow intervals only, wherever they lie.
func TestPreciseIgnoresSignificance(t *testing.T) {
	wide := Contrast{Better: Lower, Primary: true, Pairs: pairs(10, 3, 0.1)}
	narrow := Contrast{Better: Lower, Primary: true, Pairs: pairs(10, 1.05, 0.01)}
	if Precise([]Contrast{narrow, wide}, 0.05) {
		t.Error("a study with one wide interval stops")
	}
	wide.Failed = 1
	if !Precise([]Contrast{narrow, wide}, 0.05) {
		t.Error("a failed contrast prolongs the study")
	}
}

func TestForecast(t *testing.T) {
	if got := Forecast(0, Interval{-0.10, 0.10}, 10, 0.05); got < 40 || got > 45 {
		t.Errorf("twice as precise: %d blocks, want some 42", got)
	}
	if got := Forecast(0, Interval{math.Inf(-1), math.Inf(1)}, 3, 0.05); got != 0 {
		t.Errorf("without an interval: %d blocks", got)
	}
	r := Calibrate(pairs(10, 1, 0.05), 0.01)
	if r.Margin < 0.01 || r.Likely <= 10 {
		t.Errorf("calibration: %+v", r)
	}
	if r := Calibrate(pairs(10, 1, 0.001), 0.05); r.Margin > 0.002 || r.Likely != 10 {
		t.Errorf("calibration: %+v", r)
	}
}

// TestOrder balances places and neighbours, and appends blocks to the same order.
func TestOrder(t *testing.T) {
	for k := 1; k <= 7; k++ {
		blocks := 2 * k
		order := Order(k, blocks, 42)
		places, behind := map[[2]int]int{}, map[[2]int]int{}
		for _, block := range order {
			for p, e := range block {
				places[[2]int{e, p}]++
				if p > 0 {
					behind[[2]int{block[p-1], e}]++
				}
			}
		}
		for at, n := range places {
			if n != 2 || len(places) != k*k {
				t.Fatalf("%d environments: place %v is taken %d times, want 2", k, at, n)
			}
		}
		for at, n := range behind {
			if n != 2 || len(behind) != k*(k-1) {
				t.Fatalf("%d environments: %v follow each other %d times, want 2", k, at, n)
			}
		}
		more := Order(k, blocks+3, 42)
		for b := range order {
			if !slices.Equal(more[b], order[b]) {
				t.Fatalf("%d environments: more blocks change block %d", k, b)
			}
		}
	}
	if slices.EqualFunc(Order(4, 8, 1), Order(4, 8, 2), slices.Equal) {
		t.Error("two seeds return one order")
	}
}

func TestSummaries(t *testing.T) {
	x := []float64{1, 2, 3, 4, 100}
	for by, want := range map[Summary][2]float64{ByMean: {22, 22}, ByMedian: {3, 3}, ByTrim: {3, 3}, ByBest: {1, 100}, ByWorst: {100, 1}} {
		if low, high := Summarize(by, x, Lower), Summarize(by, x, Higher); low != want[0] || high != want[1] {
			t.Errorf("%s: %v and %v, want %v", by, low, high, want)
		}
	}
}

func TestBeserraMethod(t *testing.T) {
	base, env := make([]float64, 32), make([]float64, 32)
	for i := range base {
		base[i], env[i] = 100, 104.9
	}
	base[3], base[9], env[0], env[1] = 1, 1e6, -5, 1e9 // highest and lowest are dropped
	c := Beserra(env, base)
	if c.Relevant || !c.AsPublished || math.Abs(c.Change-0.049) > 1e-12 || c.Base.CV != 0 {
		t.Errorf("%+v", c)
	}
	for i := range env {
		env[i] = 95
	}
	if c := Beserra(env, base); !c.Relevant || math.Abs(c.Change+0.05) > 1e-12 {
		t.Errorf("%+v", c)
	}
	if c := Beserra(env[:10], base); c.AsPublished {
		t.Error("ten runs are called as published")
	}
}

// TestSpeed analyses 100,000 measurements. The bound is five times the aim, for machines
// that are busy.
func TestSpeed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var contrasts []Contrast
	for range 100_000 / 3 / 32 {
		c := Contrast{Better: Lower, Primary: true}
		for range 32 {
			c.Pairs = append(c.Pairs, Pair{100 + rng.NormFloat64(), 100 + rng.NormFloat64()})
			c.Again = append(c.Again, Pair{100 + rng.NormFloat64(), 100 + rng.NormFloat64()})
		}
		contrasts = append(contrasts, c)
	}
	one := Contrast{Better: Lower, Primary: true}
	for range 50_000 {
		one.Pairs = append(one.Pairs, Pair{100 + rng.NormFloat64(), 100 + rng.NormFloat64()})
	}
	one.Again = one.Pairs
	for name, study := range map[string][]Contrast{"many contrasts": contrasts, "one contrast": {one}} {
		begun := time.Now()
		Judge(study, 0.05)
		took := time.Since(begun)
		t.Logf("%s: %v", name, took)
		if took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
}
