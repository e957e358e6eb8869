package recordcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/report/page"
)

// TestPlotsOfUse: of one node, of few, and of more than are recorded one by one. A further
// attempt begins a line of its own.
func TestPlotsOfUse(t *testing.T) {
	begun := time.Unix(1000, 0)
	samples := func(nodes int) []measure.Sample {
		var s measure.Samples
		uses := make([]core.Use, nodes)
		for i := range uses {
			uses[i] = core.Use{float64(i), 1 << 20, 0, 0}
		}
		for i, attempt := range []int{1, 1, 2, 2} {
			s.Add(attempt, int64(i+1), begun.Add(time.Duration(i+1)*10*time.Second), measure.Gather(10, uses))
		}
		return s.Points
	}
	for nodes, curves := range map[int]int{1: 1, 2: 3, measure.MaxSingle + 1: measure.MaxSingle + 3} {
		plots := usePlots(samples(nodes), func(int) string { return " on a" })
		if len(plots) != core.Uses {
			t.Fatalf("%d plots", len(plots))
		}
		for use, p := range plots {
			want := curves
			if use >= core.UseGPUs {
				want = 0
			}
			if len(p.Curves) != want {
				t.Errorf("%s of %d nodes: %d curves, expected %d", p.Name, nodes, len(p.Curves), want)
			}
			for _, c := range p.Curves {
				if len(c.Points) != 6 || len(c.Begins) != 2 || c.Begins[1] != 3 || !c.Points[0].Time.Equal(begun) || !c.Points[3].Time.Equal(begun.Add(20*time.Second)) {
					t.Errorf("%s of %d nodes: %+v", c.Name, nodes, c)
				}
			}
		}
	}
	p := &page.Page{Began: begun, Ended: begun.Add(time.Minute), Plots: usePlots(samples(2), func(int) string { return " on a" })}
	var b strings.Builder
	if err := p.HTML(&b); err != nil || strings.Count(b.String(), "<polyline") != 4*3*2 || !strings.Contains(b.String(), "Newest 1.0 MB, least 1.0 MB, largest 1.0 MB") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

func TestHostsOfARank(t *testing.T) {
	v := runview.View{Nodes: 4, Attempts: []runview.Attempt{
		{Hosts: []string{"x", "y"}, Nodes: []runview.Node{{Rank: 0, Host: "a"}, {Rank: 1, Host: "b"}}},
		{Hosts: []string{"a", "b"}},
		{},
	}}
	for rank, want := range []string{" on a", " on b, a", " on b", " on b"} {
		if got := hostsOfRank(v, rank); got != want {
			t.Errorf("rank %d is %q, expected %q", rank, got, want)
		}
	}
}
