package placement

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// launched is the record of an attempt that got as far as its hosts.
func launched(n int, result state.Result, verdict state.Verdict, noProgress bool, ran time.Duration) state.Attempt {
	return state.Attempt{
		N: n, State: state.Closed, Result: result, Verdict: verdict,
		Record: state.Record{NoProgress: noProgress, Phases: map[core.Phase]time.Duration{core.PhaseRun: ran}},
	}
}

func TestCountsOfAttempts(t *testing.T) {
	const hour, second = time.Hour, time.Second
	wrote := func(n int, ran time.Duration) state.Attempt {
		return launched(n, state.Checkpointed, state.Continues, false, ran)
	}
	same := func(n int) state.Attempt { return launched(n, state.Checkpointed, state.Continues, true, hour) }
	lost := func(n int, nothingNew bool) state.Attempt {
		return launched(n, state.Lost, state.ContinuesLost, nothingNew, hour)
	}
	skipped := func(n int) state.Attempt { return state.Attempt{N: n, State: state.Closed, Verdict: state.Skipped} }
	failed := launched(1, state.Exited, state.CommandFailed, false, hour)
	for name, c := range map[string]struct {
		attempts                           []state.Attempt
		n, newest                          int
		continued, unchanged, short, since int
	}{
		"none":                                 {nil, 1, 0, 0, 0, 0, 0},
		"one that continues":                   {[]state.Attempt{wrote(1, hour)}, 2, 1, 1, 0, 0, 0},
		"a site that did not accept the run":   {[]state.Attempt{wrote(1, second), skipped(2), wrote(3, second)}, 4, 3, 2, 0, 2, 0},
		"a long one between short ones":        {[]state.Attempt{wrote(1, second), wrote(2, hour), wrote(3, second)}, 4, 3, 3, 0, 1, 0},
		"unchanged since one that was not":     {[]state.Attempt{wrote(1, hour), same(2), same(3)}, 4, 1, 3, 2, 0, 2},
		"lost attempts change nothing":         {[]state.Attempt{wrote(1, hour), lost(2, true), lost(3, true)}, 4, 1, 3, 0, 0, 2},
		"lost with what it had begun with":     {[]state.Attempt{wrote(1, hour), lost(2, true), lost(3, true)}, 4, 3, 3, 0, 0, 2},
		"lost after a snapshot with something": {[]state.Attempt{wrote(1, hour), lost(2, false)}, 3, 2, 2, 0, 0, 0},
		"after one that failed":                {[]state.Attempt{failed, wrote(2, hour)}, 3, 2, 1, 0, 0, 0},
	} {
		if got := Continued(c.attempts, c.n); got != c.continued {
			t.Errorf("%s: %d were continued, expected %d", name, got, c.continued)
		}
		if got := Unchanged(c.attempts); got != c.unchanged {
			t.Errorf("%s: %d unchanged, expected %d", name, got, c.unchanged)
		}
		if got := Short(c.attempts); got != c.short {
			t.Errorf("%s: %d short, expected %d", name, got, c.short)
		}
		if got := LaunchedSince(c.attempts, state.Attempt{}, c.newest); got != c.since {
			t.Errorf("%s: %d since the checkpoint, expected %d", name, got, c.since)
		}
	}
}

func TestSpotLosses(t *testing.T) {
	on := func(provider string, spot, noProgress bool) state.Attempt {
		a := launched(0, state.Lost, state.ContinuesLost, noProgress, time.Hour)
		a.Provider, a.Hosts = provider, []core.Host{{Name: "a", Spot: spot}}
		return a
	}
	lost, otherwise, progress := on("aws", true, true), on("aws", false, true), on("aws", true, false)
	failed := launched(0, state.Exited, state.CommandFailed, false, time.Hour)
	for name, c := range map[string]struct {
		attempts []state.Attempt
		want     int
	}{
		"none":                        {nil, 0},
		"in a row":                    {[]state.Attempt{lost, lost}, 2},
		"before one on demand":        {[]state.Attempt{lost, lost, otherwise}, 2},
		"before progress":             {[]state.Attempt{lost, lost, progress}, 0},
		"after progress":              {[]state.Attempt{progress, lost}, 1},
		"around a failed command":     {[]state.Attempt{lost, failed, lost}, 2},
		"around a site not used":      {[]state.Attempt{lost, {State: state.Closed, Verdict: state.Skipped}, lost}, 2},
		"by the word of another site": {[]state.Attempt{on("ssh", true, true), lost}, 1},
	} {
		if got := SpotLosses(c.attempts, "aws"); got != c.want {
			t.Errorf("%s: got %d, expected %d", name, got, c.want)
		}
	}
}

func TestPauseGrowsToItsBound(t *testing.T) {
	for short, want := range map[int]time.Duration{0: 0, 1: 0, 2: 2 * time.Second, 3: 4 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := Pause(short); got != want {
			t.Errorf("after %d: %s, expected %s", short, got, want)
		}
	}
}
