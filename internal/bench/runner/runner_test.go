package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// A fakeMeasurer measures without a machine. The figure depends on what is measured alone.
type fakeMeasurer struct {
	t     *testing.T
	rows  int
	cut   chan struct{} // closed by the first measurement
	until int           // measurements after which it ends, as by kill -9; 0: never
	fails map[string]int
}

var errKilled = errors.New("killed")

func (f *fakeMeasurer) Measure(_ context.Context, m Measurement) (record.Row, error) {
	if f.until > 0 && f.rows == f.until {
		return record.Row{}, errKilled
	}
	f.rows++
	if f.cut != nil {
		close(f.cut)
		return record.Row{Status: record.Failed, Error: "stopped by its user"}, nil
	}
	if f.fails[m.Environment] > 0 {
		f.fails[m.Environment]--
		return record.Row{Status: record.Failed, Error: "it fails"}, nil
	}
	return record.Row{Status: record.OK, Seconds: 1, Metrics: map[string][]record.Figure{"x": {{Value: float64(10*m.Block + len(m.Environment))}}}}, nil
}

func plan() record.Plan {
	return record.Plan{
		Study: "fake", Method: "robust", Margin: 0.05, Least: 3, Most: 10, Baseline: "a", Seed: 7,
		Environments: []record.Environment{{Name: "a"}, {Name: "bb"}, {Name: "gone", Dropped: "not here"}},
		Points:       []record.Point{{ID: "n=1", Environments: []string{"a", "bb", "gone"}}, {ID: "n=2", Environments: []string{"a", "bb"}}},
		Metrics:      []record.Metric{{Name: "x", Better: "lower", Primary: true}},
	}
}

func newRunner(t *testing.T, j *record.Journal, m Measurer) *Runner {
	t.Helper()
	return &Runner{
		Journal: j, Measurer: m, Family: 2, Now: time.Now, Report: func(Progress) {},
		Precise: func([]record.Row) bool { return false },
	}
}

// what names a row without its time.
type what struct {
	point, environment string
	again              bool
	block, place, try  int
	status             record.Status
}

func set(rows []record.Row) []what {
	var all []what
	for _, r := range rows {
		all = append(all, what{r.Point, r.Environment, r.Again, r.Block, r.Place, r.Try, r.Status})
	}
	return all
}

func TestEveryEnvironmentOncePerBlock(t *testing.T) {
	j, err := record.Create(t.TempDir(), plan())
	if err != nil {
		t.Fatal(err)
	}
	end, err := newRunner(t, j, &fakeMeasurer{t: t}).Run(t.Context())
	if err != nil || end != AllBlocks {
		t.Fatalf("%q, %v; expected all blocks", end, err)
	}
	if want := 2 * 3 * 11; len(j.Rows) != want { // points, environments and A/A, blocks with the first
		t.Errorf("%d rows, expected %d", len(j.Rows), want)
	}
	seen := map[what]int{}
	for _, w := range set(j.Rows) {
		w.place = 0
		if seen[w]++; seen[w] > 1 || w.environment == "gone" {
			t.Errorf("measured %d times: %+v", seen[w], w)
		}
	}
}

// TestInTurn: by the method of the dissertation, all measurements of an environment come before
// those of the next, and the baseline again is last.
func TestInTurn(t *testing.T) {
	p := plan()
	p.Method = study2016
	j, err := record.Create(t.TempDir(), p)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := newRunner(t, j, &fakeMeasurer{t: t}).Run(t.Context()); err != nil || end != AllBlocks {
		t.Fatalf("%q, %v; expected all blocks", end, err)
	}
	if want := 2 * 3 * 11; len(j.Rows) != want {
		t.Fatalf("%d rows, expected %d", len(j.Rows), want)
	}
	for i, r := range j.Rows {
		at := i % 33
		if r.Block != at%11 || r.Environment != []string{"a", "bb", "a"}[at/11] || r.Again != (at >= 22) || r.Place != at/11 {
			t.Errorf("row %d is %s, again %v, block %d", i, r.Environment, r.Again, r.Block)
		}
	}
}

// TestResumeAfterAKillAnywhere ends the process after each number of measurements, and also
// tears the last line: the rows are those of a study that nobody killed.
func TestResumeAfterAKillAnywhere(t *testing.T) {
	whole, err := record.Create(t.TempDir(), plan())
	if err != nil {
		t.Fatal(err)
	}
	fails := func() map[string]int { return map[string]int{"bb": 1} }
	if _, err := newRunner(t, whole, &fakeMeasurer{t: t, fails: fails()}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := set(whole.Rows)
	for until := 1; until < len(want); until++ {
		dir := t.TempDir()
		j, err := record.Create(dir, plan())
		if err != nil {
			t.Fatal(err)
		}
		f := &fakeMeasurer{t: t, until: until, fails: fails()}
		if _, err := newRunner(t, j, f).Run(t.Context()); !errors.Is(err, errKilled) {
			t.Fatalf("killed after %d: %v", until, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		tear(t, filepath.Join(dir, record.RowsFile))
		j, err = record.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		left := fails()
		if slices.ContainsFunc(j.Rows, func(r record.Row) bool { return r.Status == record.Failed }) {
			left = nil
		}
		if _, err := newRunner(t, j, &fakeMeasurer{t: t, fails: left}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := set(j.Rows); !slices.Equal(got, want) {
			t.Fatalf("killed after %d measurements: %d rows, expected the %d of a study that was not killed\n%+v\n%+v", until, len(got), len(want), got, want)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// tear adds the beginning of a line, or cuts nothing, by chance.
func tear(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"schema":1,"point":"n=1","environ`[:rand.IntN(30)]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEnvironmentThatFailsIsGivenUp(t *testing.T) {
	j, err := record.Create(t.TempDir(), plan())
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeMeasurer{t: t, fails: map[string]int{"bb": 1000}}
	r, givenUp := newRunner(t, j, f), 0
	r.Failed = func(_ record.Row, last bool) {
		if last {
			givenUp++
		}
	}
	end, err := r.Run(t.Context())
	if err != nil || end != OnlyBase || givenUp != 1 {
		t.Errorf("%q, %v, given up %d times; expected %q, once", end, err, givenUp, OnlyBase)
	}
	failed := 1000 - f.fails["bb"]
	if failed != mostTries*mostFailures {
		t.Errorf("it was tried %d times, expected %d", failed, mostTries*mostFailures)
	}
}

// TestWithoutABaselineNothingIsMeasured although two other environments work.
func TestWithoutABaselineNothingIsMeasured(t *testing.T) {
	p := plan()
	p.Environments[2].Dropped = ""
	j, err := record.Create(t.TempDir(), p)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeMeasurer{t: t, fails: map[string]int{"a": 1000}}
	if end, err := newRunner(t, j, f).Run(t.Context()); err != nil || end != OnlyBase || 1000-f.fails["a"] != mostTries*mostFailures {
		t.Errorf("%q, %v after %d tries; expected %q after %d", end, err, 1000-f.fails["a"], OnlyBase, mostTries*mostFailures)
	}
}

func TestStops(t *testing.T) {
	t.Run("precise", func(t *testing.T) {
		j, err := record.Create(t.TempDir(), plan())
		if err != nil {
			t.Fatal(err)
		}
		r := newRunner(t, j, &fakeMeasurer{t: t})
		asked := 0
		r.Precise = func(rows []record.Row) bool {
			asked++
			return true
		}
		if end, err := r.Run(t.Context()); err != nil || end != Precise || asked != 1 {
			t.Errorf("%q, %v, asked %d times", end, err, asked)
		}
	})
	t.Run("budget", func(t *testing.T) {
		p := plan()
		p.BudgetSeconds = 20 // a block takes 6 s, of which 4.5 s are starts
		for i := range p.Environments {
			p.Environments[i].TrialSeconds = 0.75
		}
		j, err := record.Create(t.TempDir(), p)
		if err != nil {
			t.Fatal(err)
		}
		r := newRunner(t, j, &fakeMeasurer{t: t})
		var scant []Scant
		r.Scant = func(s Scant) { scant = append(scant, s) }
		if end, err := r.Run(t.Context()); err != nil || end != OverBudget || len(j.Rows) != 18 {
			t.Errorf("%q, %v, %d rows", end, err, len(j.Rows))
		}
		tried := Scant{Budget: 20 * time.Second, Tried: true, Blocks: 3, Least: 7, Needs: 36 * time.Second}
		if want := (Scant{Budget: 20 * time.Second, Blocks: 2, Least: 7, Needs: 48 * time.Second}); !slices.Equal(scant, []Scant{tried, want}) {
			t.Errorf("foreseen: %+v, expected %+v and %+v", scant, tried, want)
		}
	})
	t.Run("request", func(t *testing.T) {
		j, err := record.Create(t.TempDir(), plan())
		if err != nil {
			t.Fatal(err)
		}
		r := newRunner(t, j, &fakeMeasurer{t: t})
		stop := make(chan struct{})
		close(stop)
		r.Stop = stop
		if end, err := r.Run(t.Context()); err != nil || end != Interrupted || len(j.Rows) != 0 {
			t.Errorf("%q, %v, %d rows", end, err, len(j.Rows))
		}
	})
}

// TestACutMeasurementIsNoFailure: it is measured again when the study continues.
func TestACutMeasurementIsNoFailure(t *testing.T) {
	j, err := record.Create(t.TempDir(), plan())
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeMeasurer{t: t, cut: make(chan struct{})}
	r := newRunner(t, j, f)
	r.Cut = f.cut
	if end, err := r.Run(t.Context()); err != nil || end != Interrupted || len(j.Rows) != 0 {
		t.Errorf("%q, %v, %d rows; expected %q and no row", end, err, len(j.Rows), Interrupted)
	}
}

// TestNothingBeginsThatWouldNotEnd: the last measurement ends before the hosts are taken back,
// and the next process continues there.
func TestNothingBeginsThatWouldNotEnd(t *testing.T) {
	dir := t.TempDir()
	j, err := record.Create(dir, plan())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	f := &fakeMeasurer{t: t}
	r := newRunner(t, j, f)
	r.Now = func() time.Time { return now.Add(time.Duration(len(j.Rows)) * time.Second) } // each takes one
	r.Ends = func() time.Time { return now.Add(10500 * time.Millisecond) }
	if end, err := r.Run(t.Context()); err != nil || end != HostsEnd || len(j.Rows) != 10 {
		t.Errorf("%q, %v, %d rows; expected 10 before the hosts end", end, err, len(j.Rows))
	}
	r.Ends = func() time.Time { return time.Time{} }
	if end, err := r.Run(t.Context()); err != nil || end != AllBlocks || len(j.Rows) != 2*3*11 {
		t.Errorf("on other hosts: %q, %v, %d rows", end, err, len(j.Rows))
	}
}
