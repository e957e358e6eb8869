package report

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestWhyARunWaits(t *testing.T) {
	lost := event.Event{Fields: event.Unreachable{Site: "rack"}}
	queue := state.Attempt{N: 1, Site: "lab", State: state.InQueue}
	expected := queue
	expected.Expected = time.Now()
	for name, c := range map[string]struct {
		run      state.Run
		attempts []state.Attempt
		last     event.Event
		want     bool
	}{
		"computes":       {state.Run{State: state.Running}, []state.Attempt{{State: state.Computing}}, event.Event{Fields: event.VMUsed{}}, false},
		"unreachable":    {state.Run{State: state.Running}, []state.Attempt{{State: state.Computing}}, lost, true},
		"no attempt":     {state.Run{State: state.Queued}, nil, event.Event{}, true},
		"in a queue":     {state.Run{State: state.Queued}, []state.Attempt{queue}, event.Event{}, true},
		"with a time":    {state.Run{State: state.Queued}, []state.Attempt{expected}, event.Event{}, true},
		"suspended":      {state.Run{State: state.Suspended, Message: "no site\nfits"}, nil, lost, true},
		"failed":         {state.Run{State: state.Failed, Message: "broken \x1b[2J"}, nil, event.Event{}, true},
		"succeeded":      {state.Run{State: state.Succeeded}, nil, lost, false},
		"outputs remain": {state.Run{State: state.Running}, []state.Attempt{{State: state.Collecting}}, event.Event{Fields: event.CollectFailed{}}, true},
	} {
		got := Why(c.run, c.attempts, c.last)
		if (got != "") != c.want || strings.Contains(got, "\n") {
			t.Errorf("%s: %q", name, got)
		}
		if c.want {
			testkit.Wording(t, name, got, date(expected.Expected), "TIME")
		}
	}
}

func TestProgressCountsFromTheHosts(t *testing.T) {
	now := time.Now()
	at := state.Attempt{N: 2, State: state.Computing, Started: now.Add(-time.Hour)}
	at.Granted, at.Span = now.Add(-time.Minute), time.Hour
	got := ProgressOf(state.Run{State: state.Running}, []state.Attempt{{}, at}, now)
	if got == nil || *got != (Progress{Attempt: 2, State: state.Computing, Seconds: 60, SlotSeconds: 3600}) {
		t.Errorf("got %+v", got)
	}
	if got := ProgressOf(state.Run{State: state.Failed}, []state.Attempt{at}, now); got != nil {
		t.Errorf("of a run that is over: %+v", got)
	}
}
