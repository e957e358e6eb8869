package report

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
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
		want     string // a part of it; "": nothing
	}{
		"computes":       {state.Run{State: state.Running}, []state.Attempt{{State: state.Computing}}, event.Event{Fields: event.VMUsed{}}, ""},
		"unreachable":    {state.Run{State: state.Running}, []state.Attempt{{State: state.Computing}}, lost, "site rack is unreachable"},
		"no attempt":     {state.Run{State: state.Queued}, nil, event.Event{}, "not begun"},
		"in a queue":     {state.Run{State: state.Queued}, []state.Attempt{queue}, event.Event{}, "queue of site lab"},
		"with a time":    {state.Run{State: state.Queued}, []state.Attempt{expected}, event.Event{}, "expects to start it at"},
		"suspended":      {state.Run{State: state.Suspended, Message: "no site\nfits"}, nil, lost, "no site; fits"},
		"failed":         {state.Run{State: state.Failed, Message: "broken \x1b[2J"}, nil, event.Event{}, `broken \x1b[2J`},
		"succeeded":      {state.Run{State: state.Succeeded}, nil, lost, ""},
		"outputs remain": {state.Run{State: state.Running}, []state.Attempt{{State: state.Collecting}}, event.Event{Fields: event.CollectFailed{}}, "warning"},
	} {
		got := Why(c.run, c.attempts, c.last)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
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
