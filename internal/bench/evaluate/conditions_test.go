package evaluate

import (
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/testkit"
)

// flagged returns the number of measurements of an environment with a flag that has some words.
func flagged(p record.Plan, rows []record.Row, environment, words string) (n int) {
	for _, f := range Evaluate(&p, rows).Flags {
		if f.Environment == environment && strings.Contains(f.Text, words) {
			n += f.Rows
		}
	}
	return n
}

// TestDrifts flags measurements before which the machine was not as usual, within one boot.
func TestDrifts(t *testing.T) {
	all := rows(10, 1, func(r *record.Row) {
		r.YardstickSeconds = 0.050
		if r.Block > 5 { // after a boot, at another frequency
			r.Epoch, r.YardstickSeconds = 1, 0.080
		}
		switch {
		case r.Environment != "box":
		case r.Block == 3:
			r.YardstickSeconds = 0.056
		case r.Block == 4:
			r.YardstickSeconds = 0.044
		case r.Block == 5:
			r.YardstickSeconds = 0.054
		case r.Block == 7: // not known
			r.YardstickSeconds = 0
		}
	})
	for e, want := range map[string]int{"box": 2, "native": 0} {
		if got := flagged(plan(), all, e, "faster or slower than usual"); got != want {
			t.Errorf("%s: %d measurements are flagged, expected %d", e, got, want)
		}
	}
}

// TestBindings flags processes that are bound otherwise than the baseline's. Cores that differ are no binding, and what
// a look has missed decides nothing.
func TestBindings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*record.Row)
		want   int
	}{
		"otherwise": {func(r *record.Row) {
			if r.Bound = 1; r.Environment == "box" {
				r.Bound = 2
			}
		}, 10},
		"alike":     {func(r *record.Row) { r.Bound = 1 }, 0},
		"not known": {func(r *record.Row) { r.Bound = len(r.Environment) & 1 }, 0},
		"missed in some": {func(r *record.Row) {
			if r.Bound = 1; r.Environment == "box" && r.Block < 4 {
				r.Bound = 2
			}
		}, 0},
		"fewer cores": {func(r *record.Row) {
			if r.Bound = 2; r.Environment == "box" {
				r.Bound, r.Cores = 1, 1
			}
		}, 0},
	} {
		all := rows(10, 1, func(r *record.Row) {
			r.Cores = 2
			c.change(r)
		})
		if got := flagged(plan(), all, "box", "bound otherwise"); got != c.want {
			t.Errorf("%s: %d measurements are flagged, expected %d", name, got, c.want)
		}
	}
}

// TestTransports flags MPI processes that may send messages otherwise than those of the baseline. What a look has missed
// decides nothing.
func TestTransports(t *testing.T) {
	const vader, tcp = "/usr/lib/mca_btl_vader.so", "/usr/lib/mca_btl_tcp.so"
	for name, c := range map[string]struct {
		change func(*record.Row)
		want   int
	}{
		"alike":    {func(*record.Row) {}, 0},
		"a filter": {func(r *record.Row) { r.CMA = "filtered" }, 10},
		"a filter in some": {func(r *record.Row) {
			if r.Block < 5 {
				r.CMA = "filtered"
			}
		}, 0},
		"a setting":    {func(r *record.Row) { r.MPISettings = map[string]string{"UCX_TLS": "sm", "OMPI_MCA_btl": "self,tcp"} }, 10},
		"no setting":   {func(r *record.Row) { r.MPISettings = nil }, 10},
		"no component": {func(r *record.Row) { r.Programs = map[string]string{tcp: "2"} }, 10},
		"a component in some": {func(r *record.Row) {
			if r.Block > 1 {
				r.Programs = map[string]string{tcp: "2"}
			}
		}, 0},
		"another component": {func(r *record.Row) {
			r.Programs = map[string]string{vader: "1", tcp: "2", "/usr/lib/libuct_ib.so.0": "3"}
		}, 10},
		"no MPI": {func(r *record.Row) { r.CMA, r.MPISettings, r.Programs = "", nil, nil }, 0},
	} {
		all := rows(10, 1, func(r *record.Row) {
			r.CMA, r.MPISettings, r.Programs = "open", map[string]string{"UCX_TLS": "sm"}, map[string]string{vader: "1", tcp: "2"}
			if r.Environment == "box" {
				c.change(r)
			}
		})
		var texts []string
		p, got := plan(), 0
		for _, f := range Evaluate(&p, all).Flags {
			if f.Environment != "box" {
				t.Errorf("%s: %s has the flag %q", name, f.Environment, f.Text)
			}
			texts, got = append(texts, f.Text), got+f.Rows
		}
		if got != c.want {
			t.Errorf("%s: %d measurements are flagged, expected %d", name, got, c.want)
		}
		testkit.Wording(t, name, strings.Join(texts, "\n"))
	}
}

// TestUnproven: the answer names environments with whose component bee was never tried, and those that nobody has
// measured. One that is left out has no figures to look at.
func TestUnproven(t *testing.T) {
	p := plan()
	p.Environments = append(p.Environments,
		record.Environment{Name: "fv", Untested: true, Untried: "a real VirtualBox"}, record.Environment{Name: "pv", Untried: "a real VirtualBox"},
		record.Environment{Name: "cloud", Untested: true}, record.Environment{Name: "gone", Untested: true, Dropped: "it is not here"})
	p.Busy = true
	got := unproven(&p)
	testkit.Wording(t, "never tried or measured", strings.Join(got, "\n"))
	all := rows(3, 1, nil)
	r := Evaluate(&p, all)
	sentences := Sentences(&p, &r)
	testkit.Wording(t, "a busy machine", sentences[slices.Index(sentences, got[len(got)-1])+1])
	for _, s := range got {
		if !slices.Contains(sentences, s) {
			t.Errorf("no sentence %q in %q", s, sentences)
		}
	}
}
