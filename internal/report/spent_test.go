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

// TestTimeOfACaseThatSharesALease: all of it has a name, also where the case ends before its
// pack, with an attempt that continues.
func TestTimeOfACaseThatSharesALease(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	took := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	first := state.Attempt{Started: at(10), Ended: at(50), Record: state.Record{Nodes: []core.NodeReport{{}}, Phases: map[core.Phase]time.Duration{"queue": took(5), "launch": took(1), "run": took(20), "checkpoint": took(4), "collect": took(10)}}}
	second := state.Attempt{Started: at(60), Ended: at(100), Record: first.Record}
	open := state.Attempt{Started: at(60), Record: state.Record{Phases: map[core.Phase]time.Duration{"queue": took(5)}, HeadPhases: map[core.Phase]time.Duration{"launch": took(1)}}}
	pack := state.Run{Created: begun, Ended: at(101)}
	for name, c := range map[string]struct {
		pack     state.Run
		attempts []state.Attempt
		end      int // 0: it is not over
		want     map[Use]time.Duration
	}{
		"with its pack":            {pack, []state.Attempt{first, second}, 101, map[Use]time.Duration{OnNoSite: took(21), OnQueue: took(10), OnStart: took(2), OnCompute: took(40), OnCheckpoint: took(8), OnTransfer: took(20)}},
		"before its pack":          {pack, []state.Attempt{first, second}, 80, map[Use]time.Duration{OnNoSite: took(20), OnQueue: took(10), OnStart: took(2), OnCompute: took(34), OnCheckpoint: took(4), OnTransfer: took(10)}},
		"in the first attempt":     {pack, []state.Attempt{first, second}, 20, map[Use]time.Duration{OnNoSite: took(10), OnQueue: took(5), OnStart: took(1), OnCompute: took(4)}},
		"while its pack runs":      {state.Run{Created: begun}, []state.Attempt{first, open}, 80, map[Use]time.Duration{OnNoSite: took(20), OnQueue: took(10), OnStart: took(2), OnCompute: took(34), OnCheckpoint: took(4), OnTransfer: took(10)}},
		"not, as its pack has not": {state.Run{Created: begun}, []state.Attempt{first}, 0, map[Use]time.Duration{OnNoSite: took(160), OnQueue: took(5), OnStart: took(1), OnCompute: took(20), OnCheckpoint: took(4), OnTransfer: took(10)}},
	} {
		one, all := state.Run{Created: begun, Case: state.Case{Pack: "pack"}}, took(200)
		if c.end > 0 {
			one.Ended, all = at(c.end), took(c.end)
		}
		got, sum := SpentOfCase(one, c.pack, c.attempts, at(200)), time.Duration(0)
		for _, d := range got {
			sum += d
		}
		if !maps.Equal(got, c.want) || sum != all {
			t.Errorf("%s: of %v, %v in all:\n%v, want\n%v", name, all, sum, got, c.want)
		}
	}
}
