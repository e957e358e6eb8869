package report

import (
	"reflect"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestTimeLine: neighbours of one use are one part, an image that was looked for before the
// attempt moves its begin, and what has no phase is the last part.
func TestTimeLine(t *testing.T) {
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return begun.Add(time.Duration(n) * time.Second) }
	r := state.Run{State: state.Running, Created: begun}
	attempts := []state.Attempt{
		{N: 1, Site: "lab", Started: second(10), Ended: second(20), Record: state.Record{Phases: map[core.Phase]time.Duration{
			core.PhaseImage: 5 * time.Second, core.PhaseLaunch: time.Second, core.PhaseJoin: time.Second, core.PhaseRun: 8 * time.Second,
		}, Nodes: []core.NodeReport{{}}}},
		{N: 2, Site: "far", Started: second(20), Record: state.Record{Phases: map[core.Phase]time.Duration{core.PhaseQueue: 10 * time.Second}}},
	}
	want := []Stretch{
		{Attempt: 1, Site: "lab", Began: second(5), Ended: second(20), Parts: []Part{{OnStart, 2 * time.Second}, {OnImage, 5 * time.Second}, {OnCompute, 8 * time.Second}}},
		{Attempt: 2, Site: "far", Began: second(20), Ended: second(50), Parts: []Part{{OnQueue, 10 * time.Second}, {OnCurrent, 20 * time.Second}}},
	}
	if got := TimeLine(r, attempts, second(50)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.State, r.Ended = state.Failed, second(40)
	if got := TimeLine(r, attempts, second(50)); got[1].Ended != second(40) || got[1].Parts[1].On == OnCurrent {
		t.Errorf("of a run that is over: %+v", got)
	}
}

// TestStateTexts: each state has its sentence.
func TestStateTexts(t *testing.T) {
	seen := map[string]state.RunState{}
	for _, s := range state.RunStates() {
		text := StateText(state.Run{State: s})
		if other, twice := seen[text]; twice || text == "" {
			t.Errorf("%s and %s are both %q", s, other, text)
		}
		seen[text] = s
	}
	code := 3
	testkit.Wording(t, "with an exit code", StateText(state.Run{State: state.Failed, ExitCode: &code}))
}
