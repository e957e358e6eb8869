package state

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state/event"
)

// putArray records an array of runs in the given states, whose ids begin with a letter.
func putArray(t *testing.T, s *Store, id, name string, created time.Time, states ...RunState) {
	t.Helper()
	putLimited(t, s, id, name, 0, created, states...)
}

// putLimited is putArray for an array of which only so many cases run at once.
func putLimited(t *testing.T, s *Store, id, name string, atOnce int, created time.Time, states ...RunState) {
	t.Helper()
	var cases []Run
	for i, in := range states {
		r := Run{ID: fmt.Sprintf("%s%d", id, i+1), Name: fmt.Sprintf("%s.%d", name, i+1), State: in, Created: created.Add(time.Duration(i)), Submission: []byte("{}"), Case: Case{Array: id, Name: name, Number: i + 1, AtOnce: atOnce}}
		if in.Final() {
			r.Ended = created.Add(time.Hour + time.Duration(i)*time.Second)
		}
		cases = append(cases, r)
	}
	if _, err := s.Write(t.Context(), Change{New: cases}); err != nil {
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
		got, since, err := s.Arrays().Turn(t.Context(), Case{Array: "b", Name: "model", Number: c.number}, c.atOnce)
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
	putArray(t, s, "d", "rrun", begun, Succeeded)
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
		{"rrun", ToSee, ""}, // it is the id of a run
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
	if runs, err := s.Arrays().Runs(t.Context(), "b"); err != nil || len(runs) != 3 || runs[2].Name != "model.3" || runs[2].Case != (Case{Array: "b", Name: "model", Number: 3}) {
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

// TestFailedCasesStopPacks that have not begun, also before the packs that they are of have ended.
func TestFailedCasesStopPacks(t *testing.T) {
	s, begun := open(t, t.TempDir()), time.Now()
	putLimited(t, s, "m.packs", "model.packs", 1, begun, Running, Queued, Queued)
	for i, pack := range []string{"m.packs1", "m.packs1", "m.packs1", "m.packs2", "m.packs3"} {
		r := Run{ID: fmt.Sprintf("m%d", i+1), State: Queued, Submission: []byte("{}"), Case: Case{Array: "m", Name: "model", Number: i + 1, Pack: pack}}
		if i < 3 {
			r.State = Running
		}
		if err := s.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	code := 3
	for i, ends := range []struct {
		state RunState
		want  string
	}{{Running, "[queued queued]"}, {Failed, "[stopped stopped]"}} { // the outputs of the first one are still to be collected
		run, err := s.Run(t.Context(), fmt.Sprintf("m%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		run.State, run.ExitCode = ends.state, &code
		if _, err := s.Write(t.Context(), Change{Run: &run, StopArrayAt: 2, StopRuns: "m.packs", StopWhy: Stop{Kind: "stopped", Message: "others failed"}}); err != nil {
			t.Fatal(err)
		}
		var states []RunState
		for _, id := range []string{"m4", "m5"} {
			r, err := s.Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, r.State)
		}
		if fmt.Sprint(states) != ends.want {
			t.Errorf("after %d failed, the others are %v, want %s", i+1, states, ends.want)
		}
	}
	for run, want := range map[string]int{"m.packs1": 1, "m.packs2": 2, "none": 0} {
		if got, err := s.Arrays().FailedBeside(t.Context(), run); err != nil || got != want {
			t.Errorf("%v: beside %s, %d have failed, want %d", err, run, got, want)
		}
	}
}

// TestCasesInTurn: those cases of an array need a controller whose turn has come, and others
// when they are to stop. Without one, the others end with their array.
func TestCasesInTurn(t *testing.T) {
	s, begun := open(t, t.TempDir()), time.Now()
	putLimited(t, s, "a", "other", 2, begun, Succeeded, Queued)
	putLimited(t, s, "b", "model", 3, begun, Running, Succeeded, Suspended, Queued, Queued, Queued, Suspended, Queued)
	if err := s.Requests().AskStop(t.Context(), "b5"); err != nil {
		t.Fatal(err)
	}
	due := func(want string) {
		t.Helper()
		got, err := s.Arrays().Due(t.Context(), "b")
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v: in turn are %v, want %s", err, got, want)
		}
	}
	due("[b1 b4]")
	if all, err := s.Unfinished(t.Context()); err != nil || fmt.Sprint(all) != "[a2 b1 b4 b5]" {
		t.Errorf("%v, %v", all, err)
	}
	run, err := s.Run(t.Context(), "b1")
	if err != nil || run.Case.AtOnce != 3 {
		t.Fatalf("%v: %+v", err, run.Case)
	}
	run.State, run.Ended = Succeeded, begun
	if err := s.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	due("[b4 b5]")
	why := Stop{Kind: "stopped", Message: "enough"}
	for array, want := range map[string]string{"a": "[]", "b": "[b6 b8]"} {
		got, err := s.Arrays().StopWaiting(t.Context(), array, why)
		if slices.Sort(got); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v: %v are stopped, want %s", err, got, want)
		}
	}
	if due, err := s.Arrays().Due(t.Context(), "over"); err != nil || len(due) > 0 {
		t.Errorf("of an array that is over: %v, %v", due, err)
	}
	if run, err = s.Run(t.Context(), "b8"); err != nil || run.State != Stopped || run.Message != "enough" || run.Ended.IsZero() {
		t.Errorf("%v: %+v", err, run)
	}
	if live, err := Live(t.Context(), s); err != nil || len(live) != 5 || live["b7"] != Suspended {
		t.Errorf("%v, %v", live, err)
	}
}

// TestPackedCases have no controller: they follow their pack, and end with it as far as they
// have no result of their own. A pack that has failed may lack their outputs.
func TestPackedCases(t *testing.T) {
	for _, c := range []struct {
		ends RunState
		want string
	}{
		{Succeeded, "succeeded/0 failed/3 failed/- succeeded/- queued/-"},
		{Stopped, "succeeded/0 failed/3 failed/- stopped/- queued/-"},
		{Failed, "failed/- failed/3 failed/- failed/- queued/-"},
	} {
		s, zero, three := open(t, t.TempDir()), 0, 3
		var cases []Run
		for i, r := range []Run{{ExitCode: &zero}, {ExitCode: &three}, {Message: "no such user"}, {}, {}} {
			r.ID, r.State, r.Submission = fmt.Sprintf("c%d", i+1), Running, []byte("{}")
			r.Case = Case{Array: "a", Name: "model", Number: i + 1, Pack: "pack"}
			cases = append(cases, r)
		}
		cases[4].State, cases[4].Case.Pack = Queued, "other"
		pack := Run{ID: "pack", State: Running, Submission: []byte("{}"), Case: Case{Array: "a.packs", Name: "model.packs", Number: 1}}
		if _, err := s.Write(t.Context(), Change{New: append(cases, pack)}); err != nil {
			t.Fatal(err)
		}
		if all, err := s.Unfinished(t.Context()); err != nil || fmt.Sprint(all) != "[pack]" {
			t.Errorf("%v: these need a controller: %v", err, all)
		}
		show := func() (text []string) {
			runs, err := s.Arrays().Runs(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range runs {
				code := "-"
				if r.ExitCode != nil {
					code = fmt.Sprint(*r.ExitCode)
				}
				text = append(text, string(r.State)+"/"+code)
			}
			return text
		}
		if err := errors.Join(s.Arrays().PausePack(t.Context(), "pack"), s.Arrays().Collected(t.Context(), "pack", []int{1})); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(show()); got != "[running/0 running/3 running/- queued/- queued/-]" {
			t.Errorf("between two attempts they are %s", got)
		}
		for _, follows := range []struct {
			state RunState
			want  string
		}{
			{Suspended, "[suspended/0 suspended/3 suspended/- suspended/- queued/-]"},
			{Running, "[running/0 running/3 running/- queued/- queued/-]"},
			{SetAside, "[set aside/0 set aside/3 set aside/- set aside/- queued/-]"},
			{Queued, "[running/0 running/3 running/- queued/- queued/-]"},
		} {
			state, want := follows.state, follows.want
			pack.State, pack.Suspended = state, ReasonNoSite
			if err := s.PutRun(t.Context(), pack); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(show()); got != want {
				t.Errorf("as it is %s, they are %s", state, got)
			}
		}
		pack.State, pack.Ended, pack.Message = c.ends, time.Now(), "why"
		if err := s.PutRun(t.Context(), pack); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(show()); got != "["+c.want+"]" {
			t.Errorf("as it has %s, they have %s, want %s", c.ends, got, c.want)
		}
	}
}

// TestAStoppedPack: cases that have ended with code 0 have succeeded where their outputs are here,
// and not where these were of a result that was lost since.
func TestAStoppedPack(t *testing.T) {
	s, zero := open(t, t.TempDir()), 0
	var cases []Run
	for n := 1; n <= 3; n++ {
		cases = append(cases, Run{ID: fmt.Sprintf("c%d", n), State: Running, ExitCode: &zero, EndedIn: n, Submission: []byte("{}"), Case: Case{Array: "a", Name: "model", Number: n, Pack: "pack"}})
	}
	pack := Run{ID: "pack", State: Running, Submission: []byte("{}")}
	if _, err := s.Write(t.Context(), Change{New: append(cases, pack)}); err != nil {
		t.Fatal(err)
	}
	pack.State, pack.Ended = Stopped, time.Now()
	if err := errors.Join(
		s.Arrays().Collected(t.Context(), "pack", []int{1, 3, 7}), s.Arrays().Withdraw(t.Context(), "pack", 3, 0, "rack"),
		s.PutRun(t.Context(), cases[2]), s.PutRun(t.Context(), pack)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []RunState{Succeeded, Stopped, Stopped} {
		if r, err := s.Run(t.Context(), cases[i].ID); err != nil || r.State != want || (r.ExitCode != nil) != (want == Succeeded) {
			t.Errorf("%v: case %d is %+v, want %s", err, i+1, r, want)
		}
	}
}

// TestOpenVersion15: results of cases that are not over count as those of the last attempt, and can
// be lost with it.
func TestOpenVersion15(t *testing.T) {
	dir, zero := t.TempDir(), 0
	s := open(t, dir)
	pack := Run{ID: "pack", State: Running, Submission: []byte("{}")}
	cases := []Run{{State: Running, ExitCode: &zero}, {State: Running, Message: "no such user"}, {State: Running}, {State: Succeeded, ExitCode: &zero}}
	for i := range cases {
		cases[i].ID, cases[i].Submission, cases[i].Case = fmt.Sprintf("c%d", i+1), []byte("{}"), Case{Array: "a", Number: i + 1, Pack: "pack"}
	}
	_, err := s.Write(t.Context(), Change{New: append(cases, pack), Attempts: []Attempt{{Run: "pack", N: 1}, {Run: "pack", N: 2}}})
	for _, statement := range []string{"ALTER TABLE runs DROP COLUMN case_collected", "ALTER TABLE runs DROP COLUMN case_attempt", "PRAGMA user_version=15"} {
		err = errors.Join(err, s.Exec(t.Context(), statement))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, dir)
	for i, want := range []int{2, 2, 0, 0} {
		if r, err := s.Run(t.Context(), cases[i].ID); err != nil || r.EndedIn != want {
			t.Errorf("%v: case %d is %+v, want attempt %d", err, i+1, r, want)
		}
	}
}

// TestPacksThatWaitEndWithTheirCases, which no controller would end.
func TestPacksThatWaitEndWithTheirCases(t *testing.T) {
	s := open(t, t.TempDir())
	putLimited(t, s, "b", "model.packs", 1, time.Now(), Running, Queued)
	for i, pack := range []string{"b1", "b2"} {
		r := Run{ID: fmt.Sprintf("c%d", i+1), State: Queued, Submission: []byte("{}"), Case: Case{Array: "c", Name: "model", Number: i + 1, Pack: pack}}
		if err := s.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Arrays().StopWaiting(t.Context(), "b", Stop{Kind: "stopped", Message: "why"}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]RunState{"c1": Queued, "c2": Stopped} {
		if r, err := s.Run(t.Context(), id); err != nil || r.State != want || (r.Message == "why") != want.Final() || r.Ended.IsZero() == want.Final() {
			t.Errorf("%s: %v, %+v", id, err, r)
		}
	}
}

// TestAnArrayStopsWhatWaits: cases whose turn has not come end in the transaction of the
// failure, and the others are asked.
func TestAnArrayStopsWhatWaits(t *testing.T) {
	s, begun := open(t, t.TempDir()), time.Now()
	putLimited(t, s, "b", "model", 2, begun, Running, Queued, Queued, Queued)
	run, err := s.Run(t.Context(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	run.State, run.Ended = Failed, begun
	if _, err := s.Write(t.Context(), Change{Run: &run, StopArrayAt: 1, StopWhy: Stop{Kind: "stopped", Message: "others failed"}}); err != nil {
		t.Fatal(err)
	}
	array, err := s.Arrays().Array(t.Context(), "b")
	if err != nil || array.States[Stopped] != 1 || array.States[Queued] != 2 {
		t.Errorf("%v: %+v", err, array)
	}
	if asked, err := s.Requests().Stopping(t.Context()); err != nil || fmt.Sprint(asked) != "[b2 b3]" {
		t.Errorf("%v: %v", err, asked)
	}
}

// TestLostResults: cases run again whose results were lost with an attempt of their pack, and
// the histories name them. Those that are over, or have results of another attempt, do not.
func TestLostResults(t *testing.T) {
	s, zero, three := open(t, t.TempDir()), 0, 3
	cases := []Run{{ExitCode: &zero, EndedIn: 2}, {ExitCode: &three, EndedIn: 1}, {Message: "no such user", EndedIn: 2}, {}, {ExitCode: &zero, EndedIn: 2, Ended: time.Now()}, {ExitCode: &zero, EndedIn: 2}}
	for i := range cases {
		c := &cases[i]
		c.ID, c.State, c.Submission = fmt.Sprintf("c%d", i+1), Running, []byte("{}")
		c.Case = Case{Array: "a", Name: "model", Number: i + 1, Pack: "pack"}
	}
	cases[4].State, cases[5].Case.Pack = Succeeded, "other"
	if _, err := s.Write(t.Context(), Change{New: append(cases, Run{ID: "pack", State: Running, Submission: []byte("{}")})}); err != nil {
		t.Fatal(err)
	}
	again := cases[0] // as a controller died before it had recorded the end of the attempt, and the next one reads its events again
	for _, number := range []int{3, 0, 0} {
		if err := errors.Join(s.Arrays().Withdraw(t.Context(), "pack", 2, number, "rack"), s.PutRun(t.Context(), again)); err != nil {
			t.Fatal(err)
		}
	}
	unknown := Run{ID: "c7", State: Running, ExitCode: &zero, Submission: []byte("{}"), Case: Case{Array: "a", Name: "model", Number: 7, Pack: "pack"}}
	if err := errors.Join(
		s.Arrays().Withdraw(t.Context(), "pack", 2, 0, "rack"), s.PutRun(t.Context(), unknown),
		s.Arrays().Withdraw(t.Context(), "pack", 0, 0, "rack"), s.Arrays().Withdraw(t.Context(), "pack", 0, 7, "rack")); err != nil {
		t.Fatal(err)
	}
	runs, err := s.Arrays().Runs(t.Context(), "a")
	var got []string
	for _, r := range runs {
		got = append(got, fmt.Sprintf("%s/%t", r.State, r.ExitCode != nil || r.Message != ""))
	}
	if want := "[queued/false running/true queued/false running/false succeeded/true running/true queued/false]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v: they are %v, want %s", err, got, want)
	}
	for run, want := range map[string]string{"c1": "[{rack [1]}]", "c2": "[]", "c3": "[{rack [3]}]", "c7": "[{rack [7]}]", "pack": "[{rack [3]} {rack [1]} {rack [7]}]"} {
		events, err := s.History().Events(t.Context(), run)
		lost := []event.Fields{}
		for _, e := range events {
			lost = append(lost, e.Fields)
		}
		if err != nil || fmt.Sprint(lost) != want {
			t.Errorf("%v: the history of %s has %v, want %s", err, run, lost, want)
		}
	}
}
