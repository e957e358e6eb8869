package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// simulated is a study of some metrics with one environment, on a machine that drifts, and
// where whatever comes later in a block is slower.
type simulated struct {
	noise   string  // normal, t2 or spikes
	cv      float64 // of one measurement
	effect  float64 // of the environment, as a logarithm
	better  Direction
	metrics int
}

func (s *simulated) draw(rng *rand.Rand) float64 {
	switch s.noise {
	case "t2": // Student's t with two degrees of freedom: no variance
		u := rng.Float64()
		return 0.6 * s.cv * (2*u - 1) / math.Sqrt(2*u*(1-u))
	case "spikes":
		e := rng.NormFloat64() * s.cv
		if rng.Float64() < 0.1 {
			e += rng.ExpFloat64() * 5 * s.cv
		}
		return e
	}
	return rng.NormFloat64() * s.cv
}

// run plays a study with adaptive looks, and returns its findings.
func (s *simulated) run(rng *rand.Rand, margin float64) []Finding {
	const most, placePenalty = 32, 0.01
	order := Order(3, most, rng.Uint64()) // baseline, baseline again, environment
	contrasts := make([]Contrast, s.metrics)
	for i := range contrasts {
		contrasts[i] = Contrast{Better: s.better, Primary: true, Of: most}
	}
	drift := make([]float64, s.metrics)
	looks := Looks(10, most, s.metrics)
	for b := range most {
		for i := range contrasts {
			c := &contrasts[i]
			drift[i] += rng.NormFloat64() * s.cv / 2
			var log [3]float64
			for place, e := range order[b] {
				log[e] = drift[i] + s.draw(rng) + placePenalty*float64(place)
			}
			log[2] += s.effect
			value := func(l float64) float64 {
				if s.better == Higher {
					l = -l
				}
				return 100 * math.Exp(l)
			}
			c.Pairs = append(c.Pairs, Pair{Env: value(log[2]), Base: value(log[0])})
			c.Again = append(c.Again, Pair{Env: value(log[1]), Base: value(log[0])})
		}
		if b+1 != looks[0] {
			continue
		}
		if looks = looks[1:]; len(looks) == 0 || Precise(contrasts, margin) {
			break
		}
	}
	return Judge(contrasts, margin)
}

// rates plays studies, and counts contrasts and whole studies of which wrong is true.
func (s *simulated) rates(studies int, wrong func(f *Finding) bool) (contrast, family float64) {
	rng := rand.New(rand.NewPCG(7, 11))
	for range studies {
		any := 0.0
		for _, f := range s.run(rng, 0.05) {
			if wrong(&f) {
				contrast++
				any = 1
			}
		}
		family += any
	}
	return contrast / float64(studies*s.metrics), family / float64(studies)
}

// most returns the bound of a rate that is at most 6.5 %, of so many studies: the long form
// has no allowance but its number.
func most(studies int) float64 { return 0.065 + 2*math.Sqrt(0.065*0.935/float64(studies)) }

func different(f *Finding) bool  { return f.Verdict == Slower || f.Verdict == Faster }
func equivalent(f *Finding) bool { return f.Verdict == Equivalent && !f.Widened }

func simulate(t *testing.T, studies, metrics int, cvs ...float64) {
	for _, noise := range []string{"normal", "t2", "spikes"} {
		for _, cv := range cvs {
			for _, better := range []Direction{Lower, Higher} {
				t.Run(fmt.Sprintf("%s/%v/%s", noise, cv, better), func(t *testing.T) {
					s := simulated{noise: noise, cv: cv, better: better, metrics: metrics}
					contrast, family := s.rates(studies, different)
					s.effect = math.Log(1.05)
					equal, _ := s.rates(studies, equivalent)
					t.Logf("no difference: different in %.3f of contrasts and %.3f of studies; at the margin: equivalent in %.3f", contrast, family, equal)
					if contrast > most(studies) || family > most(studies) {
						t.Errorf("no difference: different in %.3f of contrasts and %.3f of studies, want at most %.3f", contrast, family, most(studies))
					}
					if equal > most(studies) {
						t.Errorf("a difference of the margin: equivalent in %.3f, want at most %.3f", equal, most(studies))
					}
				})
			}
		}
	}
}

func TestWrongVerdictsAreRare(t *testing.T) { simulate(t, 100, 6, 0.03) }

func TestWrongVerdictsAreRareEverywhere(t *testing.T) {
	testkit.Long(t, "TestWrongVerdictsAreRare")
	t.Run("one", func(t *testing.T) { simulate(t, 3000, 1, 0.01, 0.03, 0.08) })
	t.Run("six", func(t *testing.T) { simulate(t, 1000, 6, 0.01, 0.03, 0.08) })
}

// TestPower finds a cost of 10 % with 3 % noise, in the right direction, and no cost as
// equivalent with 1 %.
func TestPower(t *testing.T) {
	for _, better := range []Direction{Lower, Higher} {
		for _, c := range []struct {
			name   string
			effect float64
			cv     float64
			want   Verdict
		}{
			{"slower", math.Log(1.10), 0.03, Slower},
			{"faster", -math.Log(1.10), 0.03, Faster},
			{"equivalent", 0, 0.01, Equivalent},
		} {
			t.Run(string(better)+"/"+c.name, func(t *testing.T) {
				s := simulated{noise: "normal", cv: c.cv, effect: c.effect, better: better, metrics: 1}
				got, _ := s.rates(200, func(f *Finding) bool { return f.Verdict == c.want })
				if got < 0.98 {
					t.Errorf("found in %.3f of studies, want at least 0.98", got)
				}
			})
		}
	}
}

// TestCoverage counts how often an interval of ten blocks holds the true ratio. A
// percentile bootstrap has 0.93 in place of 0.95 here.
func TestCoverage(t *testing.T) {
	const studies, blocks, effect = 4000, 10, 0.02
	for _, noise := range []string{"normal", "t2", "spikes"} {
		t.Run(noise, func(t *testing.T) {
			rng, s, held, held90 := rand.New(rand.NewPCG(3, 5)), simulated{noise: noise, cv: 0.03}, 0.0, 0.0
			for range studies {
				l := make([]float64, blocks)
				for i := range l {
					l[i] = effect + s.draw(rng) - s.draw(rng)
				}
				in := func(i Interval) float64 {
					if i.Low <= effect && effect <= i.High {
						return 1.0 / studies
					}
					return 0
				}
				held += in(WalshInterval(l, 0.95))
				held90 += in(WalshInterval(l, 0.90))
			}
			if held < 0.945 || held > 0.965 || held90 < 0.89 || held90 > 0.925 { // exact levels are 0.951 and 0.916
				t.Errorf("the 95 %% interval holds the ratio in %.4f, the 90 %% interval in %.4f", held, held90)
			}
		})
	}
}

// TestBeserraSimulated repeats the simulation of the dissertation's method: equal
// environments, 3 % noise and a drift, one environment after the other.
func TestBeserraSimulated(t *testing.T) {
	for _, c := range []struct{ drift, low, high float64 }{{0.0075, 0.08, 1}, {0, 0, 0.01}} {
		rng, relevant := rand.New(rand.NewPCG(1, 2)), 0.0
		const studies = 2000
		for range studies {
			at, values := 0.0, make([]float64, 2*BeserraRuns)
			for i := range values {
				at += rng.NormFloat64() * c.drift
				values[i] = 100 * math.Exp(at+rng.NormFloat64()*0.03)
			}
			if Beserra(values[:BeserraRuns], values[BeserraRuns:]).Relevant {
				relevant += 1.0 / studies
			}
		}
		t.Logf("drift of %v a run: a relevant difference in %.3f", c.drift, relevant)
		if relevant < c.low || relevant > c.high {
			t.Errorf("drift of %v a run: a relevant difference in %.3f of equal environments, want %v to %v", c.drift, relevant, c.low, c.high)
		}
	}
}
