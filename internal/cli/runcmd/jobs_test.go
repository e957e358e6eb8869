package runcmd

import (
	"slices"
	"strconv"
	"testing"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// pipeline are jobs of one run each, but the last one, an array of two cases. The runs are
// called by their numbers.
func pipeline(links ...[]submission.Link) (jobs []submittedJob) {
	for i, l := range links {
		job := submittedJob{first: &submission.Submission{}, links: l, runs: []state.Run{{ID: strconv.Itoa(i)}}}
		if i == len(links)-1 {
			job.first.Array = &submission.ArrayCase{ID: "array"}
			job.runs = append(job.runs, state.Run{ID: strconv.Itoa(i + 1)})
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// TestJobsThatNeedTheirUser: nothing is waited for that cannot happen without the user.
func TestJobsThatNeedTheirUser(t *testing.T) {
	on := func(job int) []submission.Link { return []submission.Link{{Job: job, On: spec.AfterSuccess}} }
	jobs := pipeline(nil, on(0), nil, on(1))
	for _, c := range []struct {
		states  []state.RunState // of the runs
		settled bool
	}{
		{[]state.RunState{state.Succeeded, state.Succeeded, state.Stopped, state.Succeeded, state.Failed}, true},
		{[]state.RunState{state.Succeeded, state.Succeeded, state.Stopped, state.Succeeded, state.Running}, false},
		{[]state.RunState{state.Suspended, state.Queued, state.Succeeded, state.Queued, state.Queued}, true},
		{[]state.RunState{state.Suspended, state.Queued, state.Running, state.Queued, state.Queued}, false},
		{[]state.RunState{state.Succeeded, state.Queued, state.SetAside, state.Queued, state.Queued}, false},
		{[]state.RunState{state.Succeeded, state.Succeeded, state.Succeeded, state.Suspended, state.Running}, false},
		{[]state.RunState{state.Succeeded, state.Succeeded, state.Succeeded, state.Suspended, state.Succeeded}, true},
	} {
		var now []state.Run
		for _, s := range c.states {
			now = append(now, state.Run{State: s})
		}
		if got := settled(jobs, now); got != c.settled {
			t.Errorf("%v: settled is %v", c.states, got)
		}
	}
}

// TestJobsThatNeverBegan by how others of the file ended: their failure is no other one.
func TestJobsThatNeverBegan(t *testing.T) {
	code := 0
	for _, c := range []struct {
		on     string // of the job after the first one, and of the array after that
		states []state.RunState
		never  []string
	}{
		{spec.AfterSuccess, []state.RunState{state.Succeeded, state.Failed, state.Failed, state.Failed}, []string{"2", "3"}},
		{spec.AfterSuccess, []state.RunState{state.Failed, state.Failed, state.Failed, state.Failed}, []string{"1", "2", "3"}},
		{spec.AfterFailure, []state.RunState{state.Succeeded, state.Failed, state.Succeeded, state.Failed}, []string{"1"}},
		{spec.AfterFailure, []state.RunState{state.Stopped, state.Failed, state.Succeeded, state.Failed}, nil},
		{spec.AfterEnd, []state.RunState{state.Failed, state.Failed, state.Failed, state.Failed}, nil},
		{spec.AfterSuccess, []state.RunState{state.Suspended, state.Queued, state.Queued, state.Queued}, nil},
	} {
		jobs := pipeline(nil, []submission.Link{{Job: 0, On: c.on}}, []submission.Link{{Job: 1, On: c.on}})
		ended := map[string]state.Run{}
		for i, s := range c.states {
			ended[strconv.Itoa(i)] = state.Run{ID: strconv.Itoa(i), State: s}
		}
		var got []string
		for id := range neverBegan(jobs, ended) {
			got = append(got, id)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.never) {
			t.Errorf("on %s of %v: %v never began, want %v", c.on, c.states, got, c.never)
		}
	}
	jobs := pipeline(nil, []submission.Link{{Job: 0, On: spec.AfterFailure}})
	ran := map[string]state.Run{"0": {State: state.Succeeded}, "1": {State: state.Failed, ExitCode: &code}, "2": {State: state.Succeeded}}
	if never := neverBegan(jobs, ran); len(never) > 0 {
		t.Errorf("runs with exit codes: %v", never)
	}
}
