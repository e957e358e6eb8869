package evaluate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

func log(x float64) *float64 {
	l := math.Log(x)
	return &l
}

func TestClaims(t *testing.T) {
	claim := record.Claim{Environment: "box", Against: "native", Metric: "seconds", AgainstMetric: "seconds", Points: []record.PointPair{{}}, Text: "box is slower by 6 to 14 %", From: "a paper"}
	for name, tc := range map[string]struct {
		factor    float64
		blocks    int
		low, high *float64
		change    func(*record.Plan)
		want      stats.Agreement
	}{
		"within":                   {1.1, 12, log(1.06), log(1.14), nil, stats.Agrees},
		"far away":                 {1.3, 12, log(1.06), log(1.14), nil, stats.Disagrees},
		"the other way":            {1 / 1.1, 12, log(1), nil, nil, stats.Disagrees},
		"at the bound":             {1.06, 12, log(1.06), log(1.14), nil, stats.Undecided},
		"too few blocks":           {1.1, 3, log(1.06), log(1.14), nil, stats.Undecided},
		"an emulated processor":    {1.1, 12, log(1.06), log(1.14), func(p *record.Plan) { p.Environments[1].Emulated = true }, stats.Undecided},
		"a stand-in":               {1.1, 12, log(1.06), log(1.14), func(p *record.Plan) { p.Claims[0].StandIn = "LAMMPS for CoMD" }, stats.Undecided},
		"a size for tests":         {1.1, 12, log(1.06), log(1.14), func(p *record.Plan) { p.Size = "smoke" }, stats.Undecided},
		"a baseline that is away":  {1.1, 12, log(1.06), log(1.14), func(p *record.Plan) { p.Claims[0].Against = "gone" }, stats.Undecided},
		"a point that is not here": {1.1, 12, log(1.06), log(1.14), func(p *record.Plan) { p.Claims[0].Points = nil }, stats.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan()
			c := claim
			c.Low, c.High = tc.low, tc.high
			p.Claims = []record.Claim{c}
			if tc.change != nil {
				tc.change(&p)
			}
			got := Evaluate(&p, rows(tc.blocks, tc.factor, nil)).Claims
			if len(got) != 1 || got[0].Agreement != tc.want || (tc.want == stats.Undecided) != (got[0].Reason != "") {
				t.Errorf("got %+v, expected %s", got, tc.want)
			}
		})
	}
}

// TestClaimsOfOtherFigures: a claim may compare two figures of one environment.
func TestClaimsOfOtherFigures(t *testing.T) {
	p := plan()
	p.Claims = []record.Claim{{Environment: "native", Against: "native", Metric: "seconds", AgainstMetric: "speed", Points: []record.PointPair{{}}, Low: log(1.3), High: log(1.6)}}
	got := Evaluate(&p, rows(12, 1, nil)).Claims // 10 s against 7
	if got[0].Agreement != stats.Agrees {
		t.Errorf("got %+v", got[0])
	}
}

// TestClaimsOfSpread: values within 0.5 % of their mean, and half as far as others.
func TestClaimsOfSpread(t *testing.T) {
	p := plan()
	p.Claims = []record.Claim{
		{Environment: "box", Against: "native", Metric: "seconds", AgainstMetric: "seconds", Points: []record.PointPair{{}}, Spread: true, Own: true, High: log(0.02)},
		{Environment: "box", Against: "native", Metric: "seconds", AgainstMetric: "seconds", Points: []record.PointPair{{}}, Spread: true, Own: true, High: log(0.001)},
		{Environment: "native", Against: "box", Metric: "seconds", AgainstMetric: "seconds", Points: []record.PointPair{{}}, Spread: true, High: log(1)},
	}
	all := rows(20, 1, func(r *record.Row) {
		if r.Environment == "native" { // a spread of its own that is far smaller
			r.Metrics["seconds"][0].Value = 10 + r.Metrics["seconds"][0].Value/100
		}
	})
	got := Evaluate(&p, all).Claims
	for i, want := range []stats.Agreement{stats.Agrees, stats.Disagrees, stats.Agrees} {
		if got[i].Agreement != want || got[i].Spread != p.Claims[i].Own {
			t.Errorf("%d: %+v, expected %s", i, got[i], want)
		}
	}
	for i, c := range Evaluate(&p, rows(9, 1, nil)).Claims {
		if c.Agreement != stats.Undecided || c.Reason == "" {
			t.Errorf("%d, by nine blocks: %+v", i, c)
		}
	}
}

// TestClaimsOfFiguresThatSayNothing: a figure with too few digits, and measurements that
// failed, agree with no claim.
func TestClaimsOfFiguresThatSayNothing(t *testing.T) {
	for name, change := range map[string]func(*record.Row){
		"":               nil,
		"too few digits": func(r *record.Row) { r.Metrics["seconds"][0].Value = 10 },
		"failed": func(r *record.Row) {
			if r.Environment == "box" && r.Block == 3 {
				r.Status, r.Metrics = record.Failed, nil
			}
		},
		"no ratio": func(r *record.Row) {
			if r.Environment == "box" && r.Block == 3 {
				r.Metrics["seconds"][0].Value = 0
			}
		},
	} {
		p := plan()
		about := record.Claim{Environment: "box", Against: "native", Metric: "seconds", AgainstMetric: "seconds", Points: []record.PointPair{{}}}
		equal, steady, steadier := about, about, about
		equal.Low, equal.High = log(0.9), log(1.1)
		steady.Spread, steady.Own, steady.High = true, true, log(0.5)
		steadier.Spread, steadier.High = true, log(10)
		p.Claims = []record.Claim{equal, steady, steadier}
		got := Evaluate(&p, rows(20, 1, change)).Claims
		for i := range got {
			if name == "no ratio" && i > 0 { // of pairs alone
				continue
			}
			if want := map[bool]stats.Agreement{true: stats.Agrees, false: stats.Undecided}[name == ""]; got[i].Agreement != want {
				t.Errorf("%s: claim %d %s, expected %s: %+v", name, i, got[i].Agreement, want, got[i])
			}
		}
	}
}

// TestRowsOfOtherHostsAreNotPaired: figures of different hosts of a site are never compared. A
// site of its own has others.
func TestRowsOfOtherHostsAreNotPaired(t *testing.T) {
	p := plan()
	all := rows(12, 1.1, func(r *record.Row) {
		r.Hosts = []string{"one"}
		if r.Environment == "box" {
			r.Hosts = []string{"other"}
		}
	})
	for _, c := range Evaluate(&p, all).Contrasts {
		if c.Finding.Blocks != 0 || c.Finding.Verdict == stats.Slower {
			t.Errorf("%s: %d blocks, %s", c.Metric, c.Finding.Blocks, c.Finding.Verdict)
		}
	}
	for i := range all {
		if all[i].Environment == "box" {
			all[i].Site = "cloud"
		}
	}
	for _, c := range Evaluate(&p, all).Contrasts {
		if c.Metric == "seconds" && c.Finding.Verdict != stats.Slower {
			t.Errorf("on a site of its own, %s: %d blocks, %s", c.Metric, c.Finding.Blocks, c.Finding.Verdict)
		}
	}
}

func TestResolutions(t *testing.T) {
	p := plan()
	all := rows(12, 1, func(r *record.Row) { r.Seconds = 2 })
	got := Resolutions(&p, all)
	if len(got) != 2 || got[0].MarginOrNil == nil || *got[0].MarginOrNil > 0.02 || got[0].Blocks != 12 {
		t.Fatalf("got %+v", got)
	}
	for _, n := range got[0].Needs {
		if n.Margin == 0.05 && (n.Blocks == 0 || n.Blocks > 12 || n.Seconds != float64(n.Blocks)*6) {
			t.Errorf("for 5 %%: %+v", n)
		}
	}
	if few := Resolutions(&p, rows(2, 1, nil)); few[0].MarginOrNil != nil {
		t.Errorf("two blocks resolve %v", *few[0].MarginOrNil)
	}
}

func TestCompare(t *testing.T) {
	here := Series{Name: "a", Plan: plan(), Rows: rows(12, 1, nil)}
	slower := Series{Name: "b", Plan: plan(), Rows: rows(12, 1.1, nil)}
	verdict := func(c Comparison, environment string) stats.Verdict {
		for _, x := range c.Changes {
			if x.Environment == environment && x.Metric == "speed" {
				return x.Verdict
			}
		}
		return ""
	}
	c := Compare(here, slower)
	if c.Of != ComparesValues || verdict(c, "box") != stats.Slower || verdict(c, "native") != stats.Inconclusive || !c.Worse() {
		t.Errorf("got %+v", c)
	}
	if c.Decided() {
		t.Error("a comparison with an inconclusive figure is decided")
	}
	if c := Compare(here, Series{Name: "none", Plan: plan()}); c.Decided() || c.Worse() {
		t.Errorf("without a figure in common: %+v", c)
	}
	if c := Compare(here, here); c.Worse() || verdict(c, "box") != stats.Inconclusive {
		t.Errorf("the same series: %+v", c)
	}
	gone := Series{Name: "c", Plan: plan(), Rows: rows(12, 1.1, nil)}
	gone.Rows = slices.DeleteFunc(gone.Rows, func(r record.Row) bool { return r.Environment == "box" })
	for i := range gone.Rows { // another speed, so that all that is left is decided
		for name, f := range gone.Rows[i].Metrics {
			gone.Rows[i].Metrics[name] = []record.Figure{{Value: 2 * f[0].Value}}
		}
	}
	if c := Compare(here, gone); c.Decided() || len(c.Missing) == 0 || !strings.Contains(strings.Join(c.Sentences(), " "), c.Missing[0]) {
		t.Errorf("an environment is not measured any more, and the comparison is decided: %+v", c)
	}
	other := slower
	other.Plan.Machine.CPU = "another"
	other.Rows = rows(12, 1.1, func(r *record.Row) { // a machine of twice the speed, with the same overhead
		for k, f := range r.Metrics {
			v := f[0].Value / 2
			if k == "speed" {
				v = f[0].Value * 2
			}
			r.Metrics[k] = []record.Figure{{Value: v}}
		}
	})
	if c := Compare(slower, other); c.Of != ComparesOverheads || verdict(c, "box") != stats.Inconclusive || verdict(c, "native") != "" {
		t.Errorf("another machine: %+v", c)
	}
	other.Plan.Jobs = "digest"
	if c := Compare(here, other); len(c.Differences) == 0 {
		t.Error("another job is no difference")
	}
}

// TestOtherLibraries: figures with another BLAS are withheld, those with another transport
// of MPI are not.
func TestOtherLibraries(t *testing.T) {
	with := func(native, box string) stats.Verdict {
		return verdicts(rows(12, 1, func(r *record.Row) {
			r.Programs = map[string]string{"/usr/bin/hpcc": "1"}
			if name := map[string]string{"native": native, "box": box}[r.Environment]; name != "" && r.Block%4 != 0 {
				r.Programs["/usr/lib/"+name] = "2"
			}
		}), plan())["seconds"]
	}
	for _, c := range []struct {
		native, box string
		want        stats.Verdict
	}{
		{"libblas.so.3.11.0", "libblas.so.3.11.0", stats.Equivalent},
		{"libblas.so.3.11.0", "libopenblasp-r0.3.21.so", stats.Withheld},
		{"libblas.so.3.11.0", "libopenblas.so.0", stats.Withheld},
		{"", "libmpi.so.40.30.4", stats.Withheld},
		{"mca_btl_vader.so", "mca_btl_tcp.so", stats.Equivalent},
		{"", "libX11.so.6", stats.Equivalent},
	} {
		if got := with(c.native, c.box); got != c.want {
			t.Errorf("%q against %q: %s, expected %s", c.native, c.box, got, c.want)
		}
	}
	cores := verdicts(rows(12, 1, func(r *record.Row) { r.Cores = map[string]int{"native": 2, "box": 1}[r.Environment] }), plan())
	if cores["seconds"] != stats.Withheld {
		t.Errorf("fewer cores: %s", cores["seconds"])
	}
	for more, want := range map[int64]stats.Verdict{0: stats.Equivalent, 8 << 20: stats.Equivalent, 16 << 20: stats.Withheld, 1 << 30: stats.Withheld} {
		memory := verdicts(rows(12, 1, func(r *record.Row) {
			limit := int64(1 << 30)
			if r.Environment == "box" {
				limit += more
			}
			r.MemoryLimit = &limit
		}), plan())
		if memory["seconds"] != want {
			t.Errorf("%d more bytes of memory: %s, expected %s", more, memory["seconds"], want)
		}
	}
}
