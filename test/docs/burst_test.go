package docs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/burstsim"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestBurstTables holds the settings and results of docs/reference/burst-simulate.md
// against the program, and writes them with BEE_TEST_WRITE=1.
func TestBurstTables(t *testing.T) {
	const page = "docs/reference/burst-simulate.md"
	text := documents(t)[page]
	for _, m := range []*burstsim.Model{burstsim.Events(), burstsim.Paper()} {
		var settings, results strings.Builder
		settings.WriteString("| setting | default | meaning |\n|---|---|---|\n")
		for _, s := range m.Settings {
			fmt.Fprintf(&settings, "| `%s` | `%s` | %s |\n", s.Name, s.Default, s.Meaning)
		}
		results.WriteString("| result | meaning |\n|---|---|\n")
		for _, c := range m.Columns {
			fmt.Fprintf(&results, "| `%s` | %s |\n", c.Name, c.Meaning)
		}
		for head, table := range map[string]string{"## Settings of the model " + m.Name + "\n": settings.String(), "## Results of the model " + m.Name + "\n": results.String()} {
			_, section, found := strings.Cut(text, head)
			if !found {
				t.Errorf("%s has no %q", page, head)
				continue
			}
			section, _, _ = strings.Cut(section, "\n## ")
			if os.Getenv("BEE_TEST_WRITE") != "" {
				if start := strings.Index(section, "\n| "); start >= 0 {
					old, _, _ := strings.Cut(section[start+1:], "\n\n")
					old = strings.TrimSuffix(old, "\n") + "\n"
					text = strings.Replace(text, old, strings.TrimSuffix(table, "\n")+"\n", 1)
				}
				if err := os.WriteFile(filepath.Join(testkit.Root(t), page), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !strings.Contains(section, table) {
				t.Errorf("%s, %q is not what the program has: run `BEE_TEST_WRITE=1 go test -run BurstTables ./test/docs`. Want\n%s", page, head, table)
			}
		}
	}
}

// TestBurstModel computes what docs/explanation/burst-model.md shows.
func TestBurstModel(t *testing.T) {
	text := documents(t)["docs/explanation/burst-model.md"]
	compute := func(m *burstsim.Model, set ...string) *burstsim.Table {
		s, err := m.Set(set)
		if err != nil {
			t.Fatal(err)
		}
		table, err := s.Run(1, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	run := func(set ...string) *burstsim.Table { return compute(burstsim.Paper(), set...) }
	show := func(row string) {
		if !strings.Contains(text, row) {
			t.Errorf("the page does not show %q", row)
		}
	}
	table := run("nodes=20")
	for i, r := range table.Rows {
		show(fmt.Sprintf("| %.0f %% | %.1f | %s |\n", 100*r.Point["hit"], table.Result(i, "buffered_bytes_per_second")/1e6, dollars(table.Result(i, "buffered_cost"))))
	}
	show(fmt.Sprintf("| direct | %.1f | %s |\n", table.Result(0, "direct_bytes_per_second")/1e6, dollars(table.Result(0, "direct_cost"))))
	for _, d := range burstsim.Differences() {
		show("* " + d + "\n")
	}
	simulated := compute(burstsim.Events(), "io_nodes=2,4,5,10,20", "read=0", "write=100GB", "memory=100GB", "round_trip=0s", "balance=even")
	for i, r := range simulated.Rows {
		show(fmt.Sprintf("| %.0f | %s | %s |\n", r.Point["io_nodes"], dollars(simulated.Result(i, "direct_cost")), dollars(simulated.Result(i, "buffered_cost"))))
	}
	best, at := 0.0, 0.0
	peak := run("nodes=20", "hit=0..1/0.001")
	for i, r := range peak.Rows {
		if rate := peak.Result(i, "buffered_bytes_per_second"); rate > best {
			best, at = rate, r.Point["hit"]
		}
	}
	if math.Abs(at-0.955) > 0.0015 || math.Abs(best/1e6-2829) > 3 {
		t.Errorf("the peak is %v MB/s at %v", best/1e6, at)
	}
}

func dollars(v float64) string { return strings.TrimPrefix(burstsim.Text(burstsim.Dollars, v), "$") }
