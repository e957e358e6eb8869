package submission

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestRunsThatNeverBegan by how others ended that are looked at, too: their failure is no other
// one. Each of five runs waits for the one before, and the third and fourth are one array.
func TestRunsThatNeverBegan(t *testing.T) {
	const (
		succeeded, failed, stopped, queued = state.Succeeded, state.Failed, state.Stopped, state.Queued
		array                              = "bbbb0000"
	)
	code := 0
	for row, c := range []struct {
		on     string
		states []state.RunState
		from   int // the first one that is looked at
		code   *int
		never  []int
	}{
		{spec.AfterSuccess, []state.RunState{succeeded, failed, failed, failed, failed}, 0, nil, []int{2, 3, 4}},
		{spec.AfterSuccess, []state.RunState{failed, failed, failed, failed, failed}, 0, nil, []int{1, 2, 3, 4}},
		{spec.AfterSuccess, []state.RunState{failed, failed, failed, failed, failed}, 1, nil, []int{2, 3, 4}},
		{spec.AfterSuccess, []state.RunState{failed, failed, failed, failed, failed}, 0, &code, nil},
		{spec.AfterSuccess, []state.RunState{succeeded, succeeded, failed, succeeded, failed}, 3, nil, []int{4}},
		{spec.AfterFailure, []state.RunState{succeeded, failed, succeeded, failed, failed}, 0, nil, []int{1}},
		{spec.AfterFailure, []state.RunState{stopped, failed, succeeded, succeeded, failed}, 0, nil, []int{4}},
		{spec.AfterFailure, []state.RunState{stopped, failed, succeeded, failed, failed}, 2, nil, nil},
		{spec.AfterEnd, []state.RunState{failed, failed, failed, failed, failed}, 0, nil, nil},
		{spec.AfterSuccess, []state.RunState{state.Suspended, queued, queued, queued, queued}, 0, nil, nil},
	} {
		store, id := newStore(t), func(n int) string { return fmt.Sprintf("aaaa000%d", n) }
		after := []Dependency{{}, {Run: id(0)}, {Run: id(1)}, {Run: id(1)}, {Run: array, Array: true}}
		var runs []state.Run
		for n, s := range c.states {
			sub := Submission{Version: Version}
			if n > 0 {
				after[n].On = c.on
				sub.After = after[n : n+1]
			}
			raw, err := json.Marshal(sub)
			if err != nil {
				t.Fatal(err)
			}
			run := state.Run{ID: id(n), Name: id(n), State: s, ExitCode: c.code, Submission: raw}
			if n == 2 || n == 3 {
				run.Case = state.Case{Array: array, Name: "study", Number: n - 1}
			}
			if err := store.PutRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			runs = append(runs, run)
		}
		never, err := NeverBegan(t.Context(), store, runs[c.from:])
		var got []int
		for n := range runs {
			if never[id(n)] {
				got = append(got, n)
			}
		}
		if err != nil || !slices.Equal(got, c.never) {
			t.Errorf("row %d: %v never began, want %v (%v)", row, got, c.never, err)
		}
	}
}

// TestJobsThatNeedTheirUser: nothing is waited for that cannot happen without the user.
func TestJobsThatNeedTheirUser(t *testing.T) {
	on := func(job string, array bool) []Dependency {
		return []Dependency{{Run: job, On: spec.AfterSuccess, Array: array}}
	}
	waits := Waits{"1": on("0", false), "array": on("1", false), "last": on("array", true)}
	runs := []state.Run{{ID: "0"}, {ID: "1"}, {ID: "2"}, {ID: "3", Case: state.Case{Array: "array"}}, {ID: "4", Case: state.Case{Array: "array"}}, {ID: "last"}}
	for _, c := range []struct {
		states  []state.RunState // of the runs
		settled bool
	}{
		{[]state.RunState{state.Succeeded, state.Succeeded, state.Stopped, state.Succeeded, state.Failed, state.Failed}, true},
		{[]state.RunState{state.Succeeded, state.Succeeded, state.Stopped, state.Succeeded, state.Running, state.Queued}, false},
		{[]state.RunState{state.Suspended, state.Queued, state.Succeeded, state.Queued, state.Queued, state.Queued}, true},
		{[]state.RunState{state.Suspended, state.Queued, state.Running, state.Queued, state.Queued, state.Queued}, false},
		{[]state.RunState{state.Succeeded, state.Queued, state.SetAside, state.Queued, state.Queued, state.Queued}, false},
		{[]state.RunState{state.Succeeded, state.Succeeded, state.Succeeded, state.Suspended, state.Running, state.Queued}, false},
		{[]state.RunState{state.Succeeded, state.Succeeded, state.Succeeded, state.Suspended, state.Succeeded, state.Queued}, true},
	} {
		for i, s := range c.states {
			runs[i].State = s
		}
		if got := waits.Settled(runs); got != c.settled {
			t.Errorf("%v: settled is %v", c.states, got)
		}
	}
}
