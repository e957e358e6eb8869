package measure

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

func TestGather(t *testing.T) {
	u := Gather(10, []core.Use{{1, 100, 0, 5}, nil, {3, 300, 10, 5, 0.5, 7}, {2, 200, 5, 5, 1.5, 9}})
	want := Used{
		Seconds: 10, Nodes: 3, Mean: core.Use{2, 200, 5, 5, 1, 8}, Least: core.Use{1, 100, 0, 5, 0.5, 7}, Most: core.Use{3, 300, 10, 5, 1.5, 9},
		Single: []core.Use{{1, 100, 0, 5}, {}, {3, 300, 10, 5, 0.5, 7}, {2, 200, 5, 5, 1.5, 9}},
	}
	if !reflect.DeepEqual(u, want) {
		t.Errorf("%+v, expected %+v", u, want)
	}
	if u := Gather(10, make([]core.Use, 3)); u.Nodes != 0 || u.Seconds != 0 {
		t.Errorf("of nodes that do not answer: %+v", u)
	}
	many := make([]core.Use, 1000)
	for i := range many {
		many[i] = core.Use{float64(i), 1, 0, 0}
	}
	if u := Gather(10, many); u.Nodes != 1000 || len(u.Single) != MaxSingle || u.Mean[core.UseCores] != 499.5 || u.Least[core.UseCores] != 0 || u.Most[core.UseCores] != 999 {
		t.Errorf("of many nodes: %d single ones, mean %v, %v to %v", len(u.Single), u.Mean, u.Least, u.Most)
	}
}

// TestJoin: averages count by their lengths, and of memory the most.
func TestJoin(t *testing.T) {
	first := Gather(10, []core.Use{{1, 500, 0, 30}, {3, 100, 0, 0}})
	both := first.Join(Gather(30, []core.Use{{3, 200, 40, 10}}))
	want := Used{
		Seconds: 40, Nodes: 2, Mean: core.Use{2.75, 300, 30, 11}, Least: core.Use{1, 100, 0, 0}, Most: core.Use{3, 500, 40, 30},
		Single: []core.Use{{2.5, 500, 30, 15}, {3, 100, 0, 0}},
	}
	if !reflect.DeepEqual(both, want) {
		t.Errorf("%+v, expected %+v", both, want)
	}
	if u := (Used{}).Join(first); !reflect.DeepEqual(u, first) {
		t.Errorf("after nothing: %+v", u)
	}
}

// TestSamplesAreBounded: over years, of many nodes whose numbers are as long as numbers can be,
// the record is below 1 MB. The average of all and the peaks stay what they are.
func TestSamplesAreBounded(t *testing.T) {
	var s Samples
	begun := time.Unix(1e9, 123456789)
	nodes := make([]core.Use, MaxSingle+1)
	for i := range nodes {
		nodes[i] = core.Use{math.Pi * 1e5, 1<<60 - 1<<10, math.Pi * 1e17, math.Pi * 1e17, math.Pi * 100, 1 << 59}
	}
	u := Gather(31536.123, nodes)
	peak := Gather(31536.123, nodes)
	peak.Most[core.UseMemory] = 1 << 60
	const events = 5 * MaxSamples
	for i := range events {
		at := begun.Add(time.Duration(i) * time.Hour)
		if i == events/3 {
			s.Add(1, int64(i+1), at, peak)
		} else {
			s.Add(1, int64(i+1), at, u)
		}
		if n := len(s.Points); n > MaxSamples || !s.Points[n-1].Time.Equal(at) {
			t.Fatalf("after %d: %d samples", i, n)
		}
	}
	raw, err := json.Marshal(s)
	if err != nil || len(raw) > 1_000_000 || len(s.Points) < MaxSamples/2 {
		t.Errorf("%d samples have %d bytes: %v", len(s.Points), len(raw), err)
	}
	sum := s.Summary()
	if sum == nil || math.Abs(sum.Seconds/(events*u.Seconds)-1) > 1e-6 || math.Abs(sum.Cores/(u.Mean[core.UseCores]*float64(len(nodes)))-1) > 1e-6 || sum.MemoryBytes != 1<<60 || sum.GPUs == nil || *sum.GPUMemoryBytes != 1<<59 {
		t.Errorf("%+v", sum)
	}
	if s.Add(1, 1, begun, u) || s.Add(0, 1<<40, begun, u) || !s.Add(2, 1, begun, u) {
		t.Error("an event counts twice, or that of a further attempt does not")
	}
}

func TestSummary(t *testing.T) {
	var s Samples
	if s.Summary() != nil {
		t.Error("there is a summary of nothing")
	}
	s.Add(1, 1, time.Unix(10, 0), Gather(10, []core.Use{{1, 100, 0, 0}, {2, 50, 0, 0}}))
	s.Add(2, 1, time.Unix(50, 0), Gather(30, []core.Use{{1, 70, 0, 0}}))
	if sum := s.Summary(); sum.Seconds != 40 || sum.Cores != 1.5 || sum.MemoryBytes != 100 || sum.GPUs != nil {
		t.Errorf("%+v", sum)
	}
	s.Points = append(s.Points, Sample{}, Sample{Used: Used{Seconds: 1, Mean: core.Use{1}}}) // of a file that something has changed
	if sum := s.Summary(); sum.Seconds != 40 {
		t.Errorf("%+v", sum)
	}
}
