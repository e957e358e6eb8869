package stats

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// some returns values with ties, zeros and now and then an infinite one.
func some(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		switch rng.IntN(8) {
		case 0:
			x[i] = 0
		case 1:
			x[i] = float64(rng.IntN(5) - 2)
		case 2:
			x[i] = math.Inf(rng.IntN(2)*2 - 1)
		default:
			x[i] = rng.NormFloat64()
		}
	}
	return x
}

// TestSelection holds order statistics of averages and differences against sorting them.
func TestSelection(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for range 300 {
		x, y := sorted(some(rng, 1+rng.IntN(12))), sorted(some(rng, 1+rng.IntN(12)))
		for _, undefined := range []float64{math.Inf(-1), math.Inf(1)} {
			var walsh, differences []float64
			for i := range x {
				for j := i; j < len(x); j++ {
					walsh = append(walsh, average(x[i], x[j], undefined))
				}
				for _, b := range y {
					d := x[i] - b
					if math.IsNaN(d) {
						d = undefined
					}
					differences = append(differences, d)
				}
			}
			slices.Sort(walsh)
			slices.Sort(differences)
			for k, want := range walsh {
				if got := walshAt(x, k+1, undefined); got != want {
					t.Fatalf("average %d of %v: %v, want %v", k+1, x, got, want)
				}
			}
			for k, want := range differences {
				if got := differenceAt(x, y, k+1, undefined); got != want {
					t.Fatalf("difference %d of %v and %v: %v, want %v", k+1, x, y, got, want)
				}
			}
		}
	}
}

// TestSymmetry turns and moves values: estimate, interval and test turn and move with them,
// and do not depend on the order of blocks.
func TestSymmetry(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	close := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-9*(1+math.Abs(a)) }
	for range 200 {
		n := 6 + rng.IntN(30)
		x, turned, moved := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64() + 0.3
			turned[i], moved[i] = -x[i], x[i]+2
		}
		a, b, c := WalshInterval(x, 0.9), WalshInterval(turned, 0.9), WalshInterval(moved, 0.9)
		if !close(a.Low, -b.High) || !close(a.High, -b.Low) || !close(a.Low+2, c.Low) || !close(a.High+2, c.High) {
			t.Fatalf("intervals %v, turned %v, moved %v", a, b, c)
		}
		if !close(SignedRank(x), SignedRank(turned)) || !close(HodgesLehmann(x), -HodgesLehmann(turned)) {
			t.Fatal("the test does not turn with its values")
		}
		if e := HodgesLehmann(x); e < a.Low || e > a.High {
			t.Fatalf("the estimate %v lies outside of its interval %v", e, a)
		}
		p := SignedRank(x)
		if out := (Interval{0, 0}).Apart(WalshInterval(x, 0.95)); out != (p <= 0.05) {
			t.Fatalf("p = %v, and the 95 %% interval leaves out 0: %v", p, out)
		}
		rng.Shuffle(n, func(i, j int) { x[i], x[j] = x[j], x[i] })
		if WalshInterval(x, 0.9) != a || SignedRank(x) != p {
			t.Fatal("the order of blocks counts")
		}
	}
}

// TestLargeSamples continues the exact distributions without a step.
func TestLargeSamples(t *testing.T) {
	n := exactPairs
	exact, approximate := rankOfInterval(n, 0.95), rankOfInterval(n+1, 0.95)
	growth := rankOfInterval(n, 0.95) - rankOfInterval(n-1, 0.95)
	if d := approximate - exact - growth; d < -8 || d > 2 {
		t.Errorf("from %d pairs on the rank is %d instead of about %d", n+1, approximate, exact+growth)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, n+1)
	for i := range x {
		x[i] = rng.NormFloat64() + 0.15
	}
	if a, b := SignedRank(x[:n]), SignedRank(x); math.Abs(math.Log(a/b)) > 0.7 {
		t.Errorf("p of %d pairs is %v, of one more %v", n, a, b)
	}
	if a, b := new(Unpaired).MannWhitney(x[:50], x[50:100]), new(Unpaired).MannWhitney(x[:50], x[50:101]); math.Abs(math.Log(a/b)) > 0.7 {
		t.Errorf("p of 100 values is %v, of one more %v", a, b)
	}
}

// TestConstants has an answer for samples without any spread.
func TestConstants(t *testing.T) {
	x := []float64{2, 2, 2, 2, 2, 2}
	if SignedRank(make([]float64, 6)) != 1 || new(Unpaired).MannWhitney(x, x) != 1 || Trend(x).P != 1 || len(Outliers(x)) != 0 {
		t.Error("constants differ from themselves")
	}
	if i := WalshInterval(x, 0.9); i != (Interval{2, 2}) {
		t.Errorf("interval %v", i)
	}
	if e := HodgesLehmann([]float64{math.Inf(1), math.Inf(-1)}); !math.IsNaN(e) {
		t.Errorf("opposite infinities have the estimate %v", e)
	}
	if i := WalshInterval(append(x, math.Inf(1), math.Inf(-1)), 0.99); !math.IsInf(i.Low, -1) || !math.IsInf(i.High, 1) {
		t.Errorf("interval %v", i)
	}
	if o := Outliers([]float64{1, 1.1, 0.9, 1.05, 0.95, 9}); !slices.Equal(o, []int{5}) {
		t.Errorf("outliers %v", o)
	}
}

// FuzzJudge gives any figures to the robust method. A verdict keeps to its rule.
func FuzzJudge(f *testing.F) {
	seed := func(values ...float64) {
		var raw []byte
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
		}
		f.Add(raw, true, 0.05)
	}
	seed(1, 1, 1, 1, 2, 2, 2, 2)
	seed(0, math.Inf(1), math.NaN(), -1, 5e-324, math.MaxFloat64, 1, 2)
	seed(slices.Repeat([]float64{1.01, 1, 1, 1.01}, 12)...)
	f.Fuzz(func(t *testing.T, raw []byte, higher bool, margin float64) {
		if !(margin > 0 && margin < 10) || len(raw) > 8<<10 {
			t.Skip() // no margin of a study
		}
		c := Contrast{Better: Lower, Primary: true}
		if higher {
			c.Better = Higher
		}
		for ; len(raw) >= 32; raw = raw[32:] {
			at := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])) }
			c.Pairs = append(c.Pairs, Pair{at(0), at(1)})
			c.Again = append(c.Again, Pair{at(2), at(3)})
		}
		got := Judge([]Contrast{c, c}, margin)[0]
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
		switch got.Verdict {
		case Equivalent:
			if got.Unusable > 0 || got.Blocks < got.Least || !got.Ninety.Within(Band(got.Margin)) || !got.Again.Within(Band(got.Margin)) {
				t.Fatalf("equivalent: %+v", got)
			}
		case Slower, Faster:
			if got.Adjusted >= 0.05 || (got.Estimate > 0) != (got.Verdict == Slower) {
				t.Fatalf("%+v", got)
			}
		}
		Precise([]Contrast{c}, margin)
		Trend(c.values())
	})
}

func (c *Contrast) values() []float64 {
	x := make([]float64, len(c.Pairs))
	for i, p := range c.Pairs {
		x[i] = p.Env
	}
	return x
}

// TestDistributionsAreKept: the second sample of a size has the p-value and the interval that it
// has alone.
func TestDistributionsAreKept(t *testing.T) {
	var kept Unpaired
	x, y := []float64{1, 5, 9, 12, 13}, []float64{2, 3, 4, 10}
	for range 2 {
		one, alone := kept.MannWhitney(x, y), new(Unpaired).MannWhitney(x, y)
		_, interval := kept.Shift(x, y, 0.8)
		_, own := new(Unpaired).Shift(x, y, 0.8)
		if one != alone || one >= 1 || interval != own {
			t.Errorf("p %v and %v, intervals %v and %v", one, alone, interval, own)
		}
		x, y = y, x
	}
}
