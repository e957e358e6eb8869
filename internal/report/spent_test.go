package report

import (
	"maps"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestAllOfARunsTimeHasAName: between attempts, within them, and of one that was lost
// with its head.
func TestAllOfARunsTimeHasAName(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	took := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	head := []core.NodeReport{{}}
	attempts := []state.Attempt{
		{Started: at(10), Ended: at(100), Record: state.Record{
			Nodes:  head,
			Phases: map[core.Phase]time.Duration{"queue": took(20), "stage": took(3), "launch": took(1), "run": took(50), "checkpoint": took(5), "collect": took(9)},
		}},
		{Started: at(130), Ended: at(170), State: state.Closed, Result: state.Unreported, Record: state.Record{Phases: map[core.Phase]time.Duration{"acquire": took(4)}}},
		// Released while the next one continues, and with a phase of before its beginning.
		{Started: at(170), Ended: at(190), Record: state.Record{Nodes: head, Phases: map[core.Phase]time.Duration{"image": took(2), "run": took(10)}}},
		{Started: at(180), Record: state.Record{Phases: map[core.Phase]time.Duration{"acquire": took(1)}}},
	}
	want := map[Use]time.Duration{
		OnNoSite: took(10 + 30 - 2), OnQueue: took(20 + 4 + 1), OnImage: took(2), OnTransfer: took(3 + 9), OnStart: took(1), OnCompute: took(60),
		OnCheckpoint: took(5), OnOther: took(2), OnLoss: took(36), OnCurrent: took(19),
	}
	got := Spent(state.Run{Created: begun}, attempts, at(200))
	sum := time.Duration(0)
	for _, d := range got {
		sum += d
	}
	if !maps.Equal(got, want) || sum != took(200) {
		t.Errorf("of 200 s, %v in all:\n%v, want\n%v", sum, got, want)
	}
	if all := Spent(state.Run{Created: begun, Ended: at(7)}, nil, at(200)); !maps.Equal(all, map[Use]time.Duration{OnNoSite: took(7)}) {
		t.Errorf("a run without attempts: %v", all)
	}
}
