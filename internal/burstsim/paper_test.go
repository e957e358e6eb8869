package burstsim

import (
	"math"
	"testing"
)

func run(t *testing.T, m *Model, assignments ...string) *Table {
	t.Helper()
	s, err := m.Set(assignments)
	if err != nil {
		t.Fatal(err)
	}
	table, err := s.Run(1, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestStudysTable holds the model against the study's values for 20 nodes.
func TestStudysTable(t *testing.T) {
	table := run(t, Paper(), "nodes=20")
	rates := []float64{128.6, 171.4, 257.1, 514.3, 2700}
	costs := []string{"$3.50", "$2.63", "$1.75", "$0.88", "$0.17"}
	if len(table.Rows) != len(rates) {
		t.Fatalf("%d rows", len(table.Rows))
	}
	for i := range rates {
		near(t, "buffered", table.Result(i, "buffered_bytes_per_second")/1e6, rates[i], 0.05)
		if got := Text(Dollars, table.Result(i, "buffered_cost")); got != costs[i] {
			t.Errorf("cost: got %s, want %s", got, costs[i])
		}
		near(t, "direct", table.Result(i, "direct_bytes_per_second")/1e6, 135, 1e-9)
		near(t, "direct cost", table.Result(i, "direct_cost"), 1.67, 0.005)
		near(t, "break-even", table.Result(i, "break_even"), 0.5238, 0.0001)
	}
}

// TestDifferences: what is printed of text and formula is so.
func TestDifferences(t *testing.T) {
	best := run(t, Paper(), "nodes=20", "hit=100%")
	near(t, "times cheaper", best.Result(0, "direct_cost")/best.Result(0, "buffered_cost"), 10, 1e-9)
	one := run(t, Paper(), "nodes=1", "hit=75%")
	near(t, "one node", one.Result(0, "buffered_bytes_per_second")/1e6, 180, 1e-9)
	even := run(t, Paper(), "nodes=20", "hit=52.38095238%")
	near(t, "cost at break-even", even.Result(0, "buffered_cost"), even.Result(0, "direct_cost"), 1e-6)
}

func TestDirect(t *testing.T) {
	linear := run(t, Paper(), "nodes=1,5,10,20", "hit=0%")
	for i, want := range []float64{13.5, 67.5, 135, 135} {
		near(t, "linear", linear.Result(i, "direct_bytes_per_second")/1e6, want, 1e-9)
	}
	// −1.5x² + 30x − 15: 13.5 at 1, 135 at 10 = 30 / (2 · 1.5).
	curve := run(t, Paper(), "nodes=1,5,10,20", "hit=0%", "curve=quadratic")
	for i, want := range []float64{13.5, 97.5, 135, 135} {
		near(t, "quadratic", curve.Result(i, "direct_bytes_per_second")/1e6, want, 1e-9)
	}
}

func TestNoBreakEven(t *testing.T) {
	table := run(t, Paper(), "nodes=20", "hit=0%", "network=1MB/s")
	if got := table.Result(0, "break_even"); !math.IsNaN(got) {
		t.Errorf("a network slower than twice the line breaks even at %v", got)
	}
}
