package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state"
)

// TestShowSaysEachThingOnce: the only attempt of a run fails for the reason for
// which the run fails; that of another attempt is its own.
func TestShowSaysEachThingOnce(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Failed, Kind: "lost", Message: "n1 is gone", Remedy: "Look after it."})
	for i, reason := range []string{"n0 is away", "n1 is gone"} {
		at := state.Attempt{Run: "aaaa1111", N: i + 1, Site: "rack", Started: time.Now(), Released: true, Record: state.Record{Kind: "lost", Message: reason, Remedy: "Look after it."}}
		if err := d.store.PutAttempt(t.Context(), at, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.store.AddNote(t.Context(), "aaaa1111", "it waited"); err != nil {
		t.Fatal(err)
	}
	if err := d.bee("show", "pi"); err != nil {
		t.Fatal(err)
	}
	got := d.out.String()
	for part, times := range map[string]int{"n0 is away": 1, "n1 is gone": 1, "Look after it.": 2, "\nreason ": 1, "\n  reason ": 1, "\nhistory\n": 1, " \n": 0} {
		if strings.Count(got, part) != times {
			t.Errorf("%q is there %d times, not %d, in\n%s", part, strings.Count(got, part), times, got)
		}
	}
}
