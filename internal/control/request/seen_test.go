package request

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestRequestsOfASeenAttempt: what a user asks who has seen one attempt never acts on a later
// one. It is recorded with that attempt, and leaves other requests as they are.
func TestRequestsOfASeenAttempt(t *testing.T) {
	store, err := state.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run, _ := controltest.Submit(t, store, controltest.Movable(), []string{"a", "b"})
	for n := range 2 {
		if err := store.PutAttempt(t.Context(), state.Attempt{Run: run.ID, N: n + 1, Site: "a", State: state.Computing, Started: time.Now()}, false); err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	ask := func() error { calls++; return nil }
	asked := func(seen int) []error {
		q := Requests{store, &seen}
		return []error{
			q.Checkpoint(t.Context(), run, 2, ask), q.Move(t.Context(), run, 2, nil, ask), q.Move(t.Context(), run, 2, controltest.Sites("b"), ask), q.Stop(t.Context(), run.ID),
		}
	}
	if _, err := (Requests{Store: store}).Ask(t.Context(), run.ID, []state.Attempt{{N: 2}}, state.RequestSiteLost, nil); err != nil {
		t.Fatal(err)
	}
	for _, seen := range []int{0, 1, 3} {
		for i, err := range asked(seen) {
			if !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
				t.Errorf("request %d of attempt %d: %v", i, seen, err)
			}
		}
	}
	if calls != 0 {
		t.Errorf("a head was asked %d times", calls)
	}
	for i, err := range asked(2) {
		if err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if calls != 3 {
		t.Errorf("a head was asked %d times, expected 3", calls)
	}
	var got []string
	list, err := store.Requests().Of(t.Context(), run.ID)
	for _, r := range list {
		if r.Author == "" {
			t.Errorf("%+v has no author", r)
		}
		got = append(got, fmt.Sprintf("%s %d %s", r.Kind, r.Attempt, r.Result))
	}
	want := []string{"site_lost 2 "}
	for _, seen := range []int{0, 1, 3} {
		for _, kind := range []string{"checkpoint", "move", "move", "stop"} {
			want = append(want, fmt.Sprintf("%s %d overtaken", kind, seen))
		}
	}
	want = append(want, "checkpoint 2 done", "move 2 done", "move 2 ", "stop 2 ")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("requests %q, expected %q, %v", got, want, err)
	}
}
