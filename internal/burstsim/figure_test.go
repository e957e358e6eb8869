package burstsim

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func drawn(t *testing.T, m *Model, assignments ...string) []*Figure {
	t.Helper()
	s, err := m.Set(assignments)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Figures(1, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFigures(t *testing.T) {
	all := drawn(t, Paper())
	for i, want := range []struct {
		name   string
		series int
		last   float64 // of the last line at 20 nodes
	}{{"buffer", 2, 2700}, {"hits", 6, 2700}, {"limits", 2, 135}, {"cost", 6, 1. / 6}} {
		f := all[i]
		if f.Name != want.name || len(f.Series) != want.series {
			t.Errorf("%s has %d lines, want %s with %d", f.Name, len(f.Series), want.name, want.series)
		}
		last := f.Series[len(f.Series)-1]
		near(t, f.Name, last.Y[len(last.Y)-1], want.last, 1e-6)
		if lines := strings.Split(string(f.CSV()), "\n"); len(lines) != 22 || strings.Count(lines[20], ",") != want.series {
			t.Errorf("%s: %q", f.Name, lines)
		}
		var got struct {
			Series []struct {
				Label  string
				Points [][2]float64
			}
		}
		raw, err := f.JSON()
		if err != nil || json.Unmarshal(raw, &got) != nil || len(got.Series) != want.series || got.Series[0].Points[19][0] != 20 {
			t.Errorf("%s: %v, %s", f.Name, err, raw)
		}
	}
}

func TestFiguresOfGivenValues(t *testing.T) {
	all := drawn(t, Paper(), "nodes=2,4", "hit=10%,90%", "line=1gbit")
	if n := len(all[1].Series); n != 3 || len(all[1].Series[0].X) != 2 || all[2].Series[1].Y[0] != 125 {
		t.Errorf("%d lines, %v", n, all[2].Series[1])
	}
	s, err := Paper().Set([]string{"line=1gbit,2gbit"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Figures(1, func() error { return nil }); !core.IsKind(err, core.Invalid) {
		t.Errorf("figures of two lines: %v", err)
	}
}

// TestFiguresOfEvents: the measured rates stay below what network and line can give.
func TestFiguresOfEvents(t *testing.T) {
	all := drawn(t, Events(), "nodes=1,2,4", "reuse=0%,50%,90%", "read=1GB", "write=0", "round_trip=0s", "balance=even", "io_nodes=2")
	hits, limits := all[1], all[2]
	if len(all) != 4 || len(hits.Series) != 4 || hits.Series[3].Label != "reuse 90%" {
		t.Fatalf("%d figures, %v", len(all), hits.Series)
	}
	for i, want := range []float64{135, 270, 270} {
		if i > 0 && hits.Series[2].Y[i] < hits.Series[2].Y[i-1]*0.98 {
			t.Errorf("more nodes read less: %v", hits.Series[2].Y)
		}
		near(t, "local network", limits.Series[0].Y[i], want, 1e-9)
		if none, all := hits.Series[1].Y[i], hits.Series[3].Y[i]; none > 135 || all <= none || all > want {
			t.Errorf("without reuse %v MB/s, with it %v, the network gives %v", none, all, want)
		}
	}
}
