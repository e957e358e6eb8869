package evaluate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
	"github.com/bee-hpc/bee/internal/testkit"
)

func plan() record.Plan {
	return record.Plan{
		Study: "s", Method: "robust", Margin: 0.05, Least: 10, Most: 20, Baseline: "native",
		Environments: []record.Environment{{Name: "native"}, {Name: "box"}},
		Points:       []record.Point{{Environments: []string{"native", "box"}}},
		Metrics:      []record.Metric{{Name: "seconds", Unit: "s", Better: "lower", Primary: true}, {Name: "speed", Better: "higher", Primary: true}},
	}
}

// rows measures blocks with a noise of 0.5 %, box costing a factor.
func rows(blocks int, factor float64, change func(*record.Row)) []record.Row {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []record.Row
	for block := range blocks + 1 {
		for i, e := range []string{"native", "box", "native"} {
			f := math.Exp(rng.NormFloat64() * 0.005)
			if e == "box" {
				f *= factor
			}
			r := record.Row{Environment: e, Again: i == 2, Block: block, Place: i, Status: record.OK, Metrics: map[string][]record.Figure{"seconds": {{Value: 10 * f}}, "speed": {{Value: 7 / f}}}}
			if change != nil {
				change(&r)
			}
			all = append(all, r)
		}
	}
	return all
}

func verdicts(rows []record.Row, p record.Plan) map[string]stats.Verdict {
	r := Evaluate(&p, rows)
	found := map[string]stats.Verdict{}
	for _, c := range r.Contrasts {
		found[c.Metric] = c.Finding.Verdict
	}
	return found
}

func TestVerdicts(t *testing.T) {
	for name, tc := range map[string]struct {
		rows []record.Row
		want stats.Verdict
	}{
		"equal":                 {rows(12, 1, nil), stats.Equivalent},
		"a planted 10 % slower": {rows(12, 1.1, nil), stats.Slower},
		"faster":                {rows(12, 1/1.1, nil), stats.Faster},
		"too few":               {rows(4, 1.1, nil), stats.TooFew},
		"a failed measurement": {rows(12, 1, func(r *record.Row) {
			if r.Environment == "box" && r.Block == 5 {
				r.Status = record.Failed
			}
		}), stats.Failed},
		"the baseline failed": {rows(12, 1, func(r *record.Row) {
			if r.Environment == "native" && !r.Again && r.Block == 5 {
				r.Status = record.Failed
			}
		}), stats.Failed},
		"other programs": {rows(12, 1, func(r *record.Row) {
			r.Programs = map[string]string{"/usr/lib/libblas.so.3": r.Environment}
		}), stats.Withheld},
		"another transport": {rows(12, 1, func(r *record.Row) {
			r.Programs = map[string]string{"/usr/lib/libmpi.so.40": "1", "/usr/lib/openmpi3/mca_pml_ob1.so": "2"}
			if r.Environment == "native" {
				r.Programs = map[string]string{"/usr/lib/libmpi.so.40": "1", "/usr/lib/openmpi3/mca_mtl_ofi.so": "3"}
			}
		}), stats.Withheld},
		"a transport that was looked at": {rows(12, 1, func(r *record.Row) {
			r.Programs = map[string]string{"/usr/lib/libmpi.so.40": "1", "/usr/lib/openmpi3/mca_pml_ob1.so": "2"}
			if r.Environment == "native" && r.Block < 4 {
				r.Programs["/usr/lib/openmpi3/mca_pml_cm.so"] = "3"
			}
		}), stats.Equivalent},
		"unfair": {rows(12, 1, func(r *record.Row) {
			if r.Environment == "box" {
				r.Unfair = []string{"fewer cores"}
			}
		}), stats.Withheld},
		"a library of the host": {rows(12, 1, func(r *record.Row) {
			if r.Environment == "native" && r.Block == 3 {
				r.Foreign = []string{"/usr/lib/libblas.so.3"}
			}
		}), stats.Withheld},
		"a module of the host that computes nothing": {rows(12, 1, func(r *record.Row) {
			r.Foreign = []string{"/usr/lib/libnss_systemd.so.2"}
		}), stats.Equivalent},
		"an epoch for each measurement": {rows(12, 1, func(r *record.Row) { r.Epoch = r.Place }), stats.TooFew},
	} {
		t.Run(name, func(t *testing.T) {
			for metric, v := range verdicts(tc.rows, plan()) {
				if v != tc.want {
					t.Errorf("%s: %s, expected %s", metric, v, tc.want)
				}
			}
		})
	}
}

// TestOtherBinaries withholds the verdict on programs of the host, whatever is seen of them,
// and on others that differ, unless the study wants to compare them. Cores have to be equal still.
func TestOtherBinaries(t *testing.T) {
	sums := func(r *record.Row) {
		r.Programs = map[string]string{"/usr/lib/libblas.so.3": r.Environment}
	}
	cores := func(r *record.Row) { r.Cores = len(r.Environment) }
	for name, tc := range map[string]struct {
		change         func(*record.Row)
		host, base     bool // which of the two runs programs of the host
		wanted, ofBase bool
		want           stats.Verdict
		flags          int
	}{
		"of the host, unseen":          {nil, true, false, false, false, stats.Withheld, 0},
		"of the host, in the baseline": {nil, false, true, false, false, stats.Withheld, 0},
		"of the host, in both":         {nil, true, true, false, false, stats.Equivalent, 0},
		"of the host, wanted":          {nil, true, false, true, false, stats.Equivalent, 1},
		"of the host, wanted by base":  {nil, false, true, false, true, stats.Equivalent, 1},
		"another file":                 {sums, false, false, false, false, stats.Withheld, 0},
		"another file, wanted":         {sums, true, false, true, false, stats.Equivalent, 2},
		"other cores, too":             {cores, true, false, true, false, stats.Withheld, 1},
		"the same, though others may":  {nil, false, false, true, false, stats.Equivalent, 0},
	} {
		p, all := plan(), rows(12, 1, tc.change)
		p.Environments[0].HostPrograms, p.Environments[1].HostPrograms = tc.base, tc.host
		p.Environments[0].OtherBinaries, p.Environments[1].OtherBinaries = tc.ofBase, tc.wanted
		for metric, v := range verdicts(all, p) {
			if v != tc.want {
				t.Errorf("%s: %s is %s, expected %s", name, metric, v, tc.want)
			}
		}
		r := Evaluate(&p, all)
		if len(r.Flags) != tc.flags || tc.flags > 0 && (r.Flags[0].Environment != "box" || r.Flags[0].Rows != 12) {
			t.Errorf("%s: flags %+v, expected %d", name, r.Flags, tc.flags)
		}
	}
	p := plan()
	p.Environments[1].HostPrograms = true
	r := Evaluate(&p, rows(12, 1, sums))
	said := Sentences(&p, &r)
	p.Environments[1].OtherBinaries = true
	r = Evaluate(&p, rows(12, 1, sums))
	testkit.Golden(t, "other_binaries", strings.Join(append(said, Sentences(&p, &r)...), "\n")+"\n")
}

func TestWhatWarmsUpDoesNotCount(t *testing.T) {
	got := verdicts(rows(12, 1, func(r *record.Row) {
		if r.Block == 0 && r.Environment == "box" {
			r.Metrics["seconds"][0].Value *= 1000
		}
	}), plan())
	if got["seconds"] != stats.Equivalent {
		t.Errorf("%s, expected equivalent", got["seconds"])
	}
}

// TestAdviceNeverGoesBeyondVerdicts holds the advice for figures of each verdict.
func TestAdviceNeverGoesBeyondVerdicts(t *testing.T) {
	var text strings.Builder
	for _, tc := range []struct {
		blocks int
		factor float64
	}{{12, 1}, {12, 1.1}, {4, 1}, {1, 1}} {
		p := plan()
		r := Evaluate(&p, rows(tc.blocks, tc.factor, nil))
		fmt.Fprintf(&text, "> %d blocks, factor %v\n%s\n\n", tc.blocks, tc.factor, strings.Join(Sentences(&p, &r), "\n"))
	}
	testkit.Golden(t, "advice", text.String())
}

// TestANoisyMachineSaysSo has A/A that is not equivalent: no verdict by the margin asked for.
func TestANoisyMachineSaysSo(t *testing.T) {
	p := plan()
	n := 0
	all := rows(12, 1, func(r *record.Row) {
		if r.Again {
			n++
			f := 1.0
			if n%2 == 0 {
				f = 1.4
			}
			r.Metrics["seconds"][0].Value *= f
			r.Metrics["speed"][0].Value /= f
		}
	})
	r := Evaluate(&p, all)
	for _, c := range r.Contrasts {
		if c.Finding.Decided() {
			t.Errorf("%s is decided as %s, by the margin asked for", c.Metric, c.Finding.Verdict)
		}
	}
	testkit.Golden(t, "noisy", strings.Join(Sentences(&p, &r), "\n")+"\n")
}

// TestSentencesNameFlags: what stands beside a verdict is not in the table alone.
func TestSentencesNameFlags(t *testing.T) {
	p := plan()
	r := Evaluate(&p, rows(3, 1, func(r *record.Row) {
		if r.Environment == "box" {
			r.Flags = []string{"data in the cache"}
		}
	}))
	testkit.Golden(t, "flags", strings.Join(Sentences(&p, &r), "\n")+"\n")
}

// TestSentencesNameACoarseFigure, whose equality shows nothing.
func TestSentencesNameACoarseFigure(t *testing.T) {
	p := plan()
	all := rows(12, 1, func(r *record.Row) { r.Metrics["speed"] = []record.Figure{{Value: 5}} })
	r := Evaluate(&p, all)
	testkit.Golden(t, "coarse", strings.Join(Sentences(&p, &r), "\n")+"\n")
}

// TestSentencesNameABaselineThatFails, as it leaves nothing to compare with.
func TestSentencesNameABaselineThatFails(t *testing.T) {
	p := plan()
	r := Evaluate(&p, rows(12, 1, func(r *record.Row) {
		if r.Environment == "native" && r.Block == 5 {
			r.Status = record.Failed
		}
	}))
	testkit.Golden(t, "baseline", strings.Join(Sentences(&p, &r), "\n")+"\n")
}

// TestBlocksAreWhole: a block that was interrupted is not counted as one.
func TestBlocksAreWhole(t *testing.T) {
	p := plan()
	all := rows(3, 1, nil)
	for i, want := range []int{3, 2, 2, 2} { // each block ends with the baseline's second measurement
		if r := Evaluate(&p, all[:len(all)-i]); r.Blocks != want {
			t.Errorf("without the last %d measurements: %d blocks, expected %d", i, r.Blocks, want)
		}
	}
	first := len(all) - 3
	if r := Evaluate(&p, append(all[:first:first], all[first+1:]...)); r.Blocks != 2 {
		t.Errorf("without the baseline's first measurement: %d blocks, expected 2", r.Blocks)
	}
}

func TestFamilyCountsPrimaryContrasts(t *testing.T) {
	p := plan()
	p.Environments = append(p.Environments, record.Environment{Name: "vm", Dropped: "no KVM"})
	if n := Family(&p); n != 2 {
		t.Errorf("%d, expected 2", n)
	}
}

// TestAnalysisGrowsWithItsRows: ten times as many points need ten times as much, and no figure is
// looked for among those of all points.
func TestAnalysisGrowsWithItsRows(t *testing.T) {
	series := func(points int) Series {
		s := Series{Plan: plan()}
		s.Plan.Points, s.Plan.Metrics[1].Sweep = nil, true
		for i := range points {
			p := record.Point{ID: fmt.Sprint(i), Environments: []string{"native", "box"}}
			s.Plan.Points = append(s.Plan.Points, p)
			s.Rows = append(s.Rows, rows(10, 1, func(r *record.Row) {
				r.Point = p.ID
				r.Metrics["speed"] = []record.Figure{{Key: "1", Value: 1}, {Key: "2", Value: 2}}
			})...)
		}
		return s
	}
	needs := func(s Series) float64 {
		return testing.AllocsPerRun(1, func() {
			Evaluate(&s.Plan, s.Rows)
			Compare(s, s)
		})
	}
	few, many := needs(series(3)), needs(series(30))
	if many > 12*few {
		t.Errorf("30 points need %.0f allocations, and 3 points %.0f", many, few)
	}
	x := index(series(3).Rows)
	for at, all := range x.at {
		if len(all) != 2 || all[0].point != at {
			t.Errorf("point %s has %v", at, all)
		}
	}
}
