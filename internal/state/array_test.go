package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// putArray records an array of runs in the given states, whose ids begin with a letter.
func putArray(t *testing.T, s *Store, id, name string, created time.Time, states ...RunState) {
	t.Helper()
	var cases []Run
	for i, in := range states {
		r := Run{ID: fmt.Sprintf("%s%d", id, i+1), Name: fmt.Sprintf("%s.%d", name, i+1), State: in, Created: created.Add(time.Duration(i)), Submission: []byte("{}"), Case: Case{id, name, i + 1}}
		if in.Final() {
			r.Ended = created.Add(time.Hour + time.Duration(i)*time.Second)
		}
		cases = append(cases, r)
	}
	if _, err := s.Write(t.Context(), Change{Cases: cases}); err != nil {
		t.Fatal(err)
	}
}

// TestTurn: of the cases of an array, never more may begin than are to run at once, and as
// many as can, in whatever order they end.
func TestTurn(t *testing.T) {
	s, begun := open(t, t.TempDir()), time.Now()
	putArray(t, s, "a", "other", begun, Queued, Queued, Queued)
	putArray(t, s, "b", "model", begun, Running, Succeeded, Suspended, Failed, Queued, Queued)
	for _, c := range []struct {
		number, atOnce int
		want           bool
	}{
		{1, 1, true}, {2, 1, false}, {5, 2, false}, {5, 3, true}, {6, 3, false}, {6, 4, true},
	} {
		got, since, err := s.Arrays().Turn(t.Context(), Case{"b", "model", c.number}, c.atOnce)
		if err != nil || got != c.want {
			t.Errorf("case %d of %d at once: %v, %v", c.number, c.atOnce, got, err)
		}
		if last := begun.Add(time.Hour + 3*time.Second); c.number > 4 && got && !since.Equal(last) {
			t.Errorf("case %d may begin since %v, not %v", c.number, since, last)
		}
	}
}

// TestArraysAreFound by id and by name, of which the newest one counts, as for runs.
func TestArraysAreFound(t *testing.T) {
	s, begun := open(t, t.TempDir()), time.Now()
	putArray(t, s, "a", "model", begun, Succeeded, Failed)
	putArray(t, s, "b", "model", begun.Add(time.Second), Running, Queued, Succeeded)
	putArray(t, s, "c", "done", begun, Succeeded, Stopped)
	for word, created := range map[string]time.Time{"run": begun, "done": begun.Add(time.Minute)} {
		if err := s.PutRun(t.Context(), Run{ID: "r" + word, Name: word, State: Succeeded, Created: created, Submission: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		word string
		why  Meaning
		want string // "-": an error
	}{
		{"a", ToSee, "a"},
		{"model", ToSee, "b"},
		{"model", ToEnd, "b"},
		{"model", ToForget, "-"},
		{"run", ToSee, ""},
		{"none", ToEnd, ""},
		{"", ToEnd, ""},
		{"done", ToSee, ""}, // a newer run has the name
	} {
		got, err := s.Arrays().Find(t.Context(), c.word, c.why)
		if id := got.ID; (err != nil) != (c.want == "-") || err == nil && id != c.want {
			t.Errorf("%q, %d: %+v, %v", c.word, c.why, got, err)
		}
	}
	b, err := s.Arrays().Array(t.Context(), "b")
	if err != nil || b.Cases() != 3 || b.Over() != 1 || b.State() != Running {
		t.Errorf("%+v, %v", b, err)
	}
	if a, err := s.Arrays().Array(t.Context(), "a"); err != nil || a.State() != Failed || !a.Ended.Equal(begun.Add(time.Hour+time.Second)) {
		t.Errorf("%+v, %v", a, err)
	}
	if runs, err := s.Arrays().Runs(t.Context(), "b"); err != nil || len(runs) != 3 || runs[2].Name != "model.3" || runs[2].Case != (Case{"b", "model", 3}) {
		t.Errorf("%+v, %v", runs, err)
	}
	if live, err := s.Arrays().Beside(t.Context(), "b3", true); err != nil || fmt.Sprint(live) != "[b1 b2]" {
		t.Errorf("%v, %v", live, err)
	}
	if _, err := s.FindRun(t.Context(), "model", ToEnd); !core.IsKind(err, core.Invalid) {
		t.Errorf("an array is taken for a run: %v", err)
	}
}

// TestAnArrayStopsItsCases that have not begun, once so many have failed, in the transaction
// of that failure, and no others.
func TestAnArrayStopsItsCases(t *testing.T) {
	s, begun := open(t, t.TempDir()), time.Now()
	putArray(t, s, "a", "other", begun, Failed, Queued)
	putArray(t, s, "b", "model", begun, Failed, Running, Queued, Suspended, Succeeded, Queued, Running, Queued)
	// One that waits for its next attempt has begun; so has not one that a site has refused.
	for run, result := range map[string]Result{"b3": NoResult, "b8": Checkpointed} {
		if err := s.PutAttempt(t.Context(), Attempt{Run: run, N: 1, State: Closed, Result: result, Started: begun, Ended: begun}, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Requests().AskStop(t.Context(), "b6"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ends, want string }{{"b2", "[b6]"}, {"b7", "[b3 b6]"}} {
		run, err := s.Run(t.Context(), c.ends)
		if err != nil {
			t.Fatal(err)
		}
		run.State, run.Ended = Failed, begun
		if _, err := s.Write(t.Context(), Change{Run: &run, StopArrayAt: 3}); err != nil {
			t.Fatal(err)
		}
		stopping, err := s.Requests().Stopping(t.Context())
		slices.Sort(stopping)
		if err != nil || fmt.Sprint(stopping) != c.want {
			t.Errorf("as %s fails, %v are asked to stop, want %s: %v", c.ends, stopping, c.want, err)
		}
	}
	for run, want := range map[string]bool{"b3": true, "b6": false} {
		if asked, err := s.Requests().Of(t.Context(), run); err != nil || len(asked) != 1 || asked[0].OfArray() != want {
			t.Errorf("%s: %v, %+v", run, err, asked)
		}
	}
}
