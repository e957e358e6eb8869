package flow

import (
	"math"
	"math/rand/v2"
	"testing"
)

func never() error { return nil }

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestOneFlow(t *testing.T) {
	s := &Simulation{}
	r := s.Resource(100)
	end := 0.0
	s.Send(s.Path(1e9, Use{r, 1}), 1000, func() { end = s.Now() })
	if err := s.Run(never); err != nil {
		t.Fatal(err)
	}
	near(t, "end", end, 10)
}

func TestFlowsOverOneBottleneck(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100} {
		s := &Simulation{}
		line, same := s.Resource(100), 0.0
		for i := range n {
			s.Send(s.Path(1e9, Use{line, 1}, Use{s.Resource(float64(90 + i)), 1}), 1000, func() { same = s.Now() })
		}
		if err := s.Run(never); err != nil {
			t.Fatal(err)
		}
		want := 10 * float64(n)
		if n == 1 {
			want = 1000. / 90
		}
		near(t, "last end", same, want)
	}
}

// TestParkingLot: the rates of a textbook's example of max-min fairness.
func TestParkingLot(t *testing.T) {
	s := &Simulation{}
	a, b, c := s.Resource(10), s.Resource(4), s.Resource(20)
	long, first, second, third := s.Path(1e9, Use{a, 1}, Use{b, 1}, Use{c, 1}), s.Path(1e9, Use{a, 1}), s.Path(1e9, Use{b, 1}), s.Path(5, Use{c, 1})
	for _, p := range []*Path{long, first, second, third} {
		s.Send(p, 1e6, func() {})
	}
	s.share()
	near(t, "long", long.Rate(), 2)
	near(t, "first", first.Rate(), 8)
	near(t, "second", second.Rate(), 2)
	near(t, "third", third.Rate(), 5)
	s.SetRate(b, 30)
	s.share()
	near(t, "long, then", long.Rate(), 5)
	near(t, "first, then", first.Rate(), 5)
	near(t, "second, then", second.Rate(), 25)
	s.SetRate(a, 1)
	s.share()
	near(t, "first, at last", first.Rate(), 0.5)
	near(t, "second, at last", second.Rate(), 29.5)
}

// TestTwice: a path that crosses a resource twice has half of it.
func TestTwice(t *testing.T) {
	s := &Simulation{}
	r := s.Resource(90)
	twice, once := s.Path(1e9, Use{r, 1}, Use{None, 1}, Use{r, 1}), s.Path(1e9, Use{r, 1})
	s.Send(twice, 1e3, func() {})
	s.Send(once, 1e3, func() {})
	s.share()
	near(t, "twice", twice.Rate(), 30)
	near(t, "once", once.Rate(), 30)
}

// TestRule changes random networks, and checks max-min fairness of all rates each time.
func TestRule(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := &Simulation{}
		for range 3 + rnd.IntN(12) {
			s.Resource(1 + 99*rnd.Float64())
		}
		var paths []*Path
		for range 2 + rnd.IntN(25) {
			limit := 1e9
			if rnd.IntN(3) == 0 {
				limit = 1 + 20*rnd.Float64()
			}
			var uses []Use
			for range 1 + rnd.IntN(4) {
				uses = append(uses, Use{Resource(rnd.IntN(len(s.resources))), float64(1 + rnd.IntN(2))})
			}
			paths = append(paths, s.Path(limit, uses...))
		}
		for range 120 {
			for range 1 + rnd.IntN(3) {
				p := paths[rnd.IntN(len(paths))]
				switch {
				case rnd.IntN(8) == 0:
					s.SetRate(Resource(rnd.IntN(len(s.resources))), 1+99*rnd.Float64())
				case len(p.flows) > 0 && rnd.IntN(2) == 0:
					p.flows = p.flows[:len(p.flows)-1]
					s.mark(p)
				default:
					s.Send(p, 1e6, func() {})
				}
			}
			s.share()
			check(t, s, paths)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func check(t *testing.T, s *Simulation, paths []*Path) {
	t.Helper()
	used, top := make([]float64, len(s.resources)), make([]float64, len(s.resources))
	for _, p := range paths {
		for _, u := range p.uses {
			used[u.Resource] += float64(len(p.flows)) * u.Times * p.rate
			if len(p.flows) > 0 {
				top[u.Resource] = math.Max(top[u.Resource], p.rate)
			}
		}
	}
	for r := range used {
		if rate := s.resources[r].rate; used[r] > rate*(1+1e-7) || math.Abs(used[r]-s.resources[r].used) > 1e-7*rate {
			t.Errorf("resource %d: %v used, %v counted, of %v", r, used[r], s.resources[r].used, rate)
		}
	}
	for i, p := range paths {
		if len(p.flows) == 0 {
			continue
		}
		ok := p.rate >= p.limit*(1-1e-7)
		for _, u := range p.uses {
			ok = ok || used[u.Resource] >= s.resources[u.Resource].rate*(1-1e-7) && p.rate >= top[u.Resource]*(1-1e-7)
		}
		if !ok || p.rate > p.limit*(1+1e-7) {
			t.Errorf("path %d has no bottleneck at %v", i, p.rate)
		}
	}
}

// TestBytes: all flows arrive, and the resource was busy for the time that they take.
func TestBytes(t *testing.T) {
	s, rnd := &Simulation{}, rand.New(rand.NewPCG(3, 4))
	line := s.Resource(1000)
	total, ended := 0.0, 0
	for range 20 {
		p := s.Path(1e9, Use{line, 1}, Use{s.Resource(400), 1})
		for range 50 {
			bytes := math.Floor(1 + 1e4*rnd.Float64())
			total += bytes
			s.Send(p, bytes, func() { ended++ })
		}
	}
	timer := 0.0
	s.After(2, func() { timer = s.Now() })
	if err := s.Run(never); err != nil || ended != 1000 || timer != 2 || s.Events() != 1001 {
		t.Fatalf("%v, %d flows ended, the timer at %v, %d events", err, ended, timer, s.Events())
	}
	if s.Now() < total/1000*(1-1e-9) || s.Now() > total/1000*1.5 {
		t.Errorf("it took %v s, at least %v s were needed", s.Now(), total/1000)
	}
}
