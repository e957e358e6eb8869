package burstsim

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestValues(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		text string
		want []float64
	}{
		{Count, "1..4", []float64{1, 2, 3, 4}},
		{Count, "1,5..9/2", []float64{1, 5, 7, 9}},
		{Share, "0%..100%/25%", []float64{0, 0.25, 0.5, 0.75, 1}},
		{Share, "0.35", []float64{0.35}},
		{Size, "100GB,4GiB,4G,512", []float64{1e11, 4 << 30, 4 << 30, 512}},
		{Rate, "135MB/s,1gbit,400mbit", []float64{135e6, 125e6, 50e6}},
		{Rate, "1MB/s..2MB/s/500KB/s", []float64{1e6, 1.5e6, 2e6}},
		{Rate, "1MB/s..2MB/s/1MB/s", []float64{1e6, 2e6}},
		{Seconds, "40ms,10s,2m,1h,3", []float64{0.04, 10, 120, 3600, 3}},
		{Dollars, "$0.405", []float64{0.405}},
		{Word, "b,a", []float64{1, 0}},
	} {
		s := Setting{Name: "x", Unit: c.unit, Words: []string{"a", "b"}}
		got, err := s.Values(c.text)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %v (%v), want %v", c.text, got, err, c.want)
		}
		for _, v := range got {
			if again, err := s.Values(s.Text(v)); err != nil || again[0] != v {
				t.Errorf("%q: %v is printed as %q, which is read as %v (%v)", c.text, v, s.Text(v), again, err)
			}
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for _, a := range [][]string{
		{"nodes="},
		{"nodes"},
		{"nodes=0"},
		{"nodes=1.5"},
		{"nodes=3..1"},
		{"nodes=1..3/0"},
		{"nodes=1..1000000"},
		{"nodes=NaN"},
		{"nodes=Inf"},
		{"nodes=1..2/-1"},
		{"hit=101%"},
		{"hit=-1"},
		{"line=135MB"},
		{"size=10s"},
		{"curve=cubic"},
		{"speed=1"},
		{""},
		{"nodes=1", "nodes=2"},
		{"nodes=1..1000", "hit=0..1/0.001"},
	} {
		if _, err := Paper().Set(a); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%q: %v, remedy %q", a, err, core.Remedy(err))
		}
	}
}

func TestTable(t *testing.T) {
	table := run(t, Paper(), "nodes=20", "hit=0%,50%")
	heads, rows := table.Text()
	if heads[0] != "hit" || len(rows) != 2 || rows[1][0] != "50%" || rows[1][2] != "257.1MB/s" {
		t.Errorf("%q, %q", heads, rows)
	}
	lines := strings.Split(string(table.CSV()), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], "20,0.5,135000000,135000000,linear,10,") {
		t.Errorf("%q", lines)
	}
	raw, err := json.Marshal(table)
	var got struct {
		Model string
		Rows  []struct {
			Nodes, Hit float64
			Curve      string
			Rate       float64 `json:"buffered_bytes_per_second"`
		}
	}
	if err != nil || json.Unmarshal(raw, &got) != nil || got.Model != "paper" || len(got.Rows) != 2 || got.Rows[1].Hit != 0.5 || got.Rows[1].Curve != "linear" {
		t.Errorf("%v, %s", err, raw)
	}
	near(t, "rate", got.Rows[1].Rate/1e6, 257.14, 0.01)
}

func FuzzValues(f *testing.F) {
	for _, text := range []string{"1..20", "0%..100%/25%", "135MB/s", "1MB/s..2MB/s/1MB/s", "4GiB", "40ms", "..", "/", "1../s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for u := Count; u <= Word; u++ {
			s := Setting{Name: "x", Unit: u, Words: []string{"a", "b"}}
			if all, err := s.Values(text); err == nil && (len(all) == 0 || len(all) > mostValues) {
				t.Errorf("%q has %d values", text, len(all))
			}
		}
	})
}
