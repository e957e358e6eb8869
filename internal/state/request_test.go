package state

import (
	"slices"
	"testing"
	"time"
)

// TestOpenVersion9 opens a database of the version in which a stop was a column of its run.
func TestOpenVersion9(t *testing.T) {
	s := openVersion(t, "version9.sql")
	runs, err := s.Runs(t.Context(), Filter{})
	if err != nil || len(runs) != 15 {
		t.Fatalf("%d runs, %v, want 15", len(runs), err)
	}
	for _, r := range runs {
		if want := r.ID == "bbbb0004" || r.ID == "bbbb0012"; r.StopAsked != want {
			t.Errorf("run %s (%s): a stop is asked: %v, want %v", r.ID, r.State, r.StopAsked, want)
		}
	}
	for run, want := range map[string][]string{
		"bbbb0001": nil,
		"bbbb0002": {"move 3 "},
		"bbbb0004": {"stop 1 "},
		"bbbb0008": {"site_lost 1 "},
		"bbbb0012": {"stop 2 "},
		"bbbb0013": {"move 1 overtaken", "stop 1 overtaken"},
		"bbbb0014": {"stop 1 done"},
	} {
		if got := results(t, s, run); !slices.Equal(got, want) {
			t.Errorf("requests of %s: %q, want %q", run, got, want)
		}
	}
	ids, err := s.Requests().Stopping(t.Context())
	if slices.Sort(ids); err != nil || !slices.Equal(ids, []string{"bbbb0004", "bbbb0012"}) {
		t.Errorf("to stop are %q, %v", ids, err)
	}
	put(t, s, runs[0]) // as the record of today
}

// results returns the requests of a run, each with its attempt and result.
func results(t *testing.T, s *Store, run string) (list []string) {
	t.Helper()
	all, err := s.Requests().Of(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		list = append(list, string(r.Kind)+" "+string(rune('0'+r.Attempt))+" "+string(r.Result))
	}
	return list
}

func TestRequestsEndWithTheirRun(t *testing.T) {
	for state, want := range map[RunState][]string{
		Stopped:   {"checkpoint 1 overtaken", "move 2 overtaken", "stop 2 done", "without_outputs 2 done", "resume 2 overtaken"},
		Succeeded: {"checkpoint 1 overtaken", "move 2 overtaken", "stop 2 overtaken", "without_outputs 2 overtaken", "resume 2 overtaken"},
		Suspended: {"checkpoint 1 overtaken", "move 2 ", "stop 2 ", "without_outputs 2 ", "resume 2 overtaken"},
	} {
		t.Run(string(state), func(t *testing.T) {
			s := open(t, t.TempDir())
			run := put(t, s, Run{Name: "pi", State: Running})
			ask := func(n int, kind RequestKind) {
				t.Helper()
				if _, err := s.Requests().Ask(t.Context(), Request{Run: run.ID, Attempt: n, Kind: kind}); err != nil {
					t.Fatal(err)
				}
			}
			attempt := Attempt{Run: run.ID, N: 1, Site: "lab", Provider: "local", Started: time.Now(), State: Computing}
			write := func() {
				t.Helper()
				if err := s.PutAttempt(t.Context(), attempt, false); err != nil {
					t.Fatal(err)
				}
			}
			write()
			ask(1, RequestCheckpoint)
			attempt.State = Releasing
			write()
			attempt.N, attempt.State = 2, Computing
			write()
			ask(2, RequestMove)
			if err := s.Requests().AskStop(t.Context(), run.ID); err != nil {
				t.Fatal(err)
			}
			ask(2, RequestWithoutOutputs)
			if state != Suspended {
				run.State = state
			}
			put(t, s, run)
			ask(2, RequestResume)
			if state == Suspended {
				ask(2, RequestResume)
				want = slices.Insert(want, len(want), "resume 2 ")
			}
			if got := results(t, s, run.ID); !slices.Equal(got, want) {
				t.Errorf("its requests: %q, want %q", got, want)
			}
			if got, err := s.Run(t.Context(), run.ID); err != nil || got.StopAsked != (state == Suspended) {
				t.Errorf("a stop is asked: %v, %v", got.StopAsked, err)
			}
		})
	}
}

func TestUnfinishedAreThoseTheirUserWantsToContinueOrEnd(t *testing.T) {
	s := open(t, t.TempDir())
	var want []string
	for _, st := range []RunState{Queued, Running, Suspended, SetAside, Succeeded, Failed, Stopped} {
		for _, kind := range []RequestKind{"", RequestStop, RequestResume, RequestMove} {
			r := put(t, s, Run{Name: "pi", State: st})
			if kind != "" {
				if _, err := s.Requests().Ask(t.Context(), Request{Run: r.ID, Kind: kind}); err != nil {
					t.Fatal(err)
				}
			}
			if asked := kind == RequestStop || kind == RequestResume; !st.Final() && (asked || st == Queued || st == Running) {
				want = append(want, r.ID)
			}
		}
	}
	got, err := s.Unfinished(t.Context())
	slices.Sort(got)
	if slices.Sort(want); err != nil || !slices.Equal(got, want) {
		t.Errorf("unfinished are %q, %v, want %q", got, err, want)
	}
}
