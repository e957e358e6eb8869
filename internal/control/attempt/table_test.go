package attempt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/state"
)

var autostarts = []state.Autostart{state.NoAutostart, state.Attended, state.Enabling, state.Enabled}

func TestEveryPairHasOneEntry(t *testing.T) {
	for _, s := range state.AttemptStates() {
		r := machine[s]
		for _, e := range Events() {
			entries := 0
			if _, has := r.moves[e]; has {
				entries++
			}
			entries += count(r.ignored, e)
			for _, why := range r.impossible {
				if why.text == "" {
					t.Errorf("state %q: %v are impossible for no reason", s, why.events)
				}
				entries += count(why.events, e)
			}
			if entries != 1 {
				t.Errorf("state %q and event %q have %d entries", s, e, entries)
			}
		}
		for e := range r.moves {
			if !slices.Contains(Events(), e) {
				t.Errorf("state %q has an entry for %q, which is no event", s, e)
			}
		}
	}
	if len(machine) != len(state.AttemptStates()) {
		t.Errorf("the table has %d rows for %d states", len(machine), len(state.AttemptStates()))
	}
}

func count(events []Event, e Event) (n int) {
	for _, x := range events {
		if x == e {
			n++
		}
	}
	return n
}

func TestEveryStateIsReachedAndLeft(t *testing.T) {
	reached, left := map[State]bool{state.Acquiring: true}, map[State]bool{state.Closed: true}
	for _, s := range state.AttemptStates() {
		for _, e := range edges(s) {
			reached[e.to], left[s] = true, true
		}
	}
	for _, s := range state.AttemptStates() {
		if !reached[s] || !left[s] {
			t.Errorf("state %q: reached %v, left %v", s, reached[s], left[s])
		}
	}
}

// TestEveryStateCanClose follows the table from each state to closed.
func TestEveryStateCanClose(t *testing.T) {
	closes := map[State]bool{state.Closed: true}
	for range state.AttemptStates() {
		for _, s := range state.AttemptStates() {
			for _, e := range edges(s) {
				closes[s] = closes[s] || closes[e.to]
			}
		}
	}
	for _, s := range state.AttemptStates() {
		if !closes[s] {
			t.Errorf("no events lead from %q to closed", s)
		}
	}
}

func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		s         State
		autostart state.Autostart
		e         Event
		next      State
	}{
		"files first":                         {state.Acquiring, state.NoAutostart, Acquired, state.Staging},
		"hosts first":                         {state.Acquiring, state.NoAutostart, AcquiredLater, state.InQueue},
		"a controller that died as it asked":  {state.Acquiring, state.NoAutostart, ControllerStarted, state.Releasing},
		"a stop in the queue":                 {state.InQueue, state.Attended, Stop, state.Releasing},
		"a stop where the site may start it":  {state.InQueue, state.Enabling, Stop, state.Cancelling},
		"an autostart that began first":       {state.Cancelling, state.Enabled, StartedBySite, state.Starting},
		"a site lost while it may start":      {state.Cancelling, state.Enabled, SiteLost, state.Ended},
		"hosts that nobody used":              {state.Starting, state.NoAutostart, Expired, state.Releasing},
		"a task that continues":               {state.Checkpointing, state.NoAutostart, TaskBegins, state.Computing},
		"a stop of a running task":            {state.Computing, state.NoAutostart, Stop, state.Computing},
		"an event that is told again":         {state.Collecting, state.NoAutostart, Reported, state.Collecting},
		"a lent volume when its next is gone": {state.Lending, state.NoAutostart, ControllerStarted, state.Releasing},
		"a release that fails":                {state.Releasing, state.NoAutostart, ReleaseFailed, state.Releasing},
	} {
		t.Run(name, func(t *testing.T) {
			if next, err := Next(c.s, c.autostart, c.e); next != c.next || err != nil {
				t.Errorf("%q on %q: %q, %v; expected %q", c.s, c.e, next, err, c.next)
			}
		})
	}
}

func TestImpossibleNamesBoth(t *testing.T) {
	for _, c := range []struct {
		s         State
		autostart state.Autostart
		e         Event
	}{
		{state.Closed, state.NoAutostart, Launch},
		{state.InQueue, state.NoAutostart, StartedBySite},
		{state.InQueue, state.Enabled, Launch},
		{"dancing", state.NoAutostart, Launch},
		{state.Closed, state.NoAutostart, "music"},
	} {
		next, err := Next(c.s, c.autostart, c.e)
		i, is := errors.AsType[*Impossible](err)
		if !is || next != c.s || i.State != c.s || i.Event != c.e || i.Reason == "" {
			t.Errorf("%q on %q: %q, %v", c.s, c.e, next, err)
		}
	}
}

// TestComputesNeverGrowsUnseen holds what a next attempt relies on: an attempt that does
// not compute begins to only by a launch, or by an autostart that is on record.
func TestComputesNeverGrowsUnseen(t *testing.T) {
	grows := []Event{Launch, StartedBySite, Enabling}
	before := []State{state.Acquiring, state.Staging, state.Lending} // where none can be on record, or its task has ended
	for _, s := range state.AttemptStates() {
		for _, autostart := range autostarts {
			if autostart.MayStart() && slices.Contains(before, s) {
				continue
			}
			for _, e := range Events() {
				next, err := Next(s, autostart, e)
				if err != nil || slices.Contains(grows, e) || MayCompute(s, autostart, state.NoResult) != No {
					continue
				}
				if MayCompute(next, autostart, state.NoResult) != No {
					t.Errorf("%q on %q: %q may compute", s, e, next)
				}
			}
		}
	}
}

func TestMayComputeByResult(t *testing.T) {
	for _, s := range []State{state.Ended, state.Keeping, state.Collecting, state.Releasing} {
		for _, r := range []state.Result{state.Exited, state.Checkpointed, state.TaskFailed, state.Lost} {
			if got := MayCompute(s, state.Enabled, r); got != No {
				t.Errorf("%q after %q: %v", s, r, got)
			}
		}
		if got := MayCompute(s, state.NoAutostart, state.Unreported); got != Perhaps {
			t.Errorf("%q with no report: %v", s, got)
		}
	}
	if got := MayCompute(state.Releasing, state.Enabled, state.NoResult); got != Perhaps {
		t.Errorf("an autostart that is released: %v", got)
	}
}

// page is where the table is printed. BEE_UPDATE=1 writes it.
const (
	page  = "../../../docs/explanation/attempts.md"
	begin = "<!-- generated from internal/control/attempt: begin -->\n"
	end   = "<!-- generated from internal/control/attempt: end -->\n"
)

func TestDocsHaveTheTable(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, is := strings.Cut(string(raw), begin)
	printed, after, ends := strings.Cut(rest, end)
	if !is || !ends {
		t.Fatalf("%s has no block between %q and %q", page, begin, end)
	}
	if printed == Markdown() {
		return
	}
	if os.Getenv("BEE_UPDATE") == "" {
		t.Fatalf("%s differs from the table: run BEE_UPDATE=1 go test ./internal/control/attempt", page)
	}
	if err := os.WriteFile(page, []byte(fmt.Sprint(before, begin, Markdown(), end, after)), 0o644); err != nil {
		t.Fatal(err)
	}
}
