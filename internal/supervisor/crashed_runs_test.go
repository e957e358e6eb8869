package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/crashes"
	"github.com/bee-hpc/bee/internal/state"
)

// TestRunsThatCrashTheirSupervisor: suspects are apart from all others, and the one that
// crashes a supervisor of its own is set aside.
func TestRunsThatCrashTheirSupervisor(t *testing.T) {
	store := storeOf(t, state.Run{ID: "goodaaaa", State: state.Running}, state.Run{ID: "crashesa", State: state.Running}, state.Run{ID: "crashesb", State: state.Failed})
	var aside []string
	c := CrashedRuns{Store: store, Log: slog.New(slog.DiscardHandler), SetAside: func(_ context.Context, id, reason, _ string) error {
		aside = append(aside, id+": "+reason)
		return nil
	}}
	ids := []string{"crashesb", "goodaaaa", "crashesa"}
	for _, id := range ids {
		if err := os.MkdirAll(store.RunDir(id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range crashes.Suspect {
		if got := c.Groups(ids); len(got) != 1 || len(got[""]) != len(ids) {
			t.Fatalf("after %d crashes the groups are %v", i, got)
		}
		for _, id := range ids[:1] {
			if _, err := crashes.Add(store.RunDir(id), fmt.Sprint(i), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.add(t.Context(), crashes.Crash{Process: fmt.Sprint(i), Runs: []string{"crashesa", "no run"}, Text: "panic: it"}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]string{"": {"goodaaaa"}, "-crashesa": {"crashesa"}, "-crashesb": {"crashesb"}}
	if got := c.Groups(ids); !reflect.DeepEqual(got, want) {
		t.Fatalf("the groups are %v, expected %v", got, want)
	}
	for _, id := range ids {
		if c.Abandoned(t.Context(), id) {
			t.Errorf("%s counts as abandoned before it crashed a supervisor of its own", id)
		}
		if err := c.add(t.Context(), crashes.Crash{Process: "own", Runs: []string{id}, Text: "panic: it"}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(aside)
	if want := []string{"crashesa: panic: it", "crashesb: panic: it"}; !slices.Equal(aside, want) {
		t.Errorf("%v were set aside, expected %v", aside, want)
	}
	if !c.Abandoned(t.Context(), "crashesb") || c.Abandoned(t.Context(), "crashesa") {
		t.Error("the run that is over is not abandoned, or one that is not over is")
	}
}
