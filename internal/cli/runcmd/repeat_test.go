package runcmd

import (
	"fmt"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestAgain: flags change the job of the run that is repeated, and no argument does.
func TestAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	a := recorded(t, runrecords.Succeeded(t, runrecords.PiBeefile, nil))
	c := a.RunCommand()
	c.SetContext(t.Context())
	from, err := a.jobToRun(c, nil, "pi")
	if err != nil {
		t.Fatal(err)
	}
	o := runOptions{nodes: 4, env: []string{"STEPS=7"}, labels: []string{"tier=test", "quick"}, pull: "missing", given: func(f string) bool { return f == "nodes" }}
	sub, err := a.submission(from, o)
	if err != nil {
		t.Fatal(err)
	}
	if sub.Job.Nodes != 4 || sub.Job.Env["STEPS"] != "7" || sub.Job.Run.Shell != "./pi | tee pi.txt" || len(sub.Job.Labels) != 3 || sub.Job.Labels["tier"] != "test" || sub.Job.Dir != "/home/ann/pi" ||
		sub.Origin.Beefile != "/home/ann/pi/pi.yaml" || sub.Origin.User == "" || sub.Origin.Version != "0.1.0" || sub.Origin.Dir != workspace.WorkingDir() {
		t.Errorf("got %+v", sub)
	}
}

// TestAgainOfAStrangersBeefile: what it does outside of its directory is asked for again.
func TestAgainOfAStrangersBeefile(t *testing.T) {
	dir := t.TempDir()
	run := runrecords.Succeeded(t, runrecords.PiBeefile, func(s *submission.Submission) { s.Job.Dir, s.Within = dir, dir })
	from, err := repeated(run)
	if err != nil || from.strange == "" {
		t.Fatalf("%v: %q", err, from.strange)
	}
	if _, err := recorded(t).submission(from, runOptions{pull: "missing", given: func(string) bool { return false }, begins: true}); console.CodeOf(err) != console.ExitInvalid {
		t.Errorf("its secret was sent: %v", err)
	}
}

// TestPacksAreNotRepeated: their task is that of their cases.
func TestPacksAreNotRepeated(t *testing.T) {
	run := runrecords.Succeeded(t, runrecords.PiBeefile, func(s *submission.Submission) {
		s.Job.Pack = []spec.PackedCase{{Number: 1, Run: "bbbb1111"}}
	})
	if _, err := repeated(run); !core.IsKind(err, core.Unsupported) {
		t.Errorf("got %v", err)
	}
}

// TestFailedCasesAreRunAgain: those that are over and did not succeed, with their numbers.
func TestFailedCasesAreRunAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	states := []state.RunState{state.Succeeded, state.Failed, state.Running, state.Stopped, state.Suspended}
	runs := make([]state.Run, len(states))
	for i, s := range states {
		place := submission.ArrayCase{ID: "dddd4444", Name: "pi", Number: i + 1, Of: len(states), AtOnce: 2}
		runs[i] = runrecords.Succeeded(t, runrecords.PiBeefile, func(s *submission.Submission) { s.Array = &place })
		runs[i].ID, runs[i].State, runs[i].Case = fmt.Sprintf("aaaa111%d", i), s, state.Case{Array: place.ID, Name: place.Name, Number: place.Number}
	}
	a := recorded(t, runs...)
	c := a.RetryCommand()
	c.SetContext(t.Context())
	from, err := a.jobToRun(c, nil, "dddd4444")
	if err != nil {
		t.Fatal(err)
	}
	again, err := chosen(from.cases, casesFailed, true)
	if err != nil || len(again) != 2 || again[0].place.Number != 2 || again[1].place.Number != 4 || again[1].place.AtOnce != 2 {
		t.Errorf("%v: %+v", err, again)
	}
	if _, err := chosen(from.cases[:1], casesFailed, true); !core.IsKind(err, core.Invalid) {
		t.Errorf("nothing is run again: %v", err)
	}
}
