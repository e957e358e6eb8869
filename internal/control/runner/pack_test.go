package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// caseEvents are what a head reports of cases: 1 means that case 1 begins, and -1 that it ends.
func caseEvents(head *controltest.Head, numbers ...int) {
	begun, rest := head.Events[0], head.Events[1:]
	head.Events = []protocol.Event{begun}
	for _, n := range numbers {
		e := protocol.Event{Phase: core.PhaseRun, Case: &protocol.CaseEnd{Number: max(n, -n)}}
		if n < 0 {
			e.Case.Exit = &core.Exit{}
		}
		head.Events = append(head.Events, e)
	}
	head.Events = append(head.Events, rest...)
}

// submitPack records a run over all sites that has so many cases, with outputs of their own.
func submitPack(t *testing.T, w *world, cases int, outputs []spec.Output) state.Run {
	t.Helper()
	job := controltest.Movable()
	job.Outputs = outputs
	for n := 1; n <= cases; n++ {
		job.Pack = append(job.Pack, spec.PackedCase{Number: n, Run: fmt.Sprintf("case%04d", n), Collects: true})
	}
	run := w.submitJob(t, job)
	for _, c := range job.Pack {
		if err := w.Store.PutRun(t.Context(), state.Run{ID: c.Run, State: state.Queued, Submission: []byte("{}"), Case: state.Case{Array: "model", Number: c.Number, Pack: run.ID}}); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// casesOf shows how the cases stand: their states, whether they have an exit code, and the attempt
// in which they got it.
func casesOf(t *testing.T, w *world) (text string) {
	t.Helper()
	runs, err := w.Store.Arrays().Runs(t.Context(), "model")
	if err != nil {
		t.Error(err)
	}
	for _, r := range runs {
		text += fmt.Sprintf("%s %t %d, ", r.State, r.ExitCode != nil, r.EndedIn)
	}
	return text
}

// TestCasesOfALostSite run again, and their histories name those whose results were there.
func TestCasesOfALostSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		caseEvents(w.sites["a"].Head, 1, -1, 2)
		caseEvents(w.sites["b"].Head, 1, -1, 2, -2, 1) // the last of which a head of ours never reports
		w.sites["a"].Head.Lasts, w.sites["a"].Head.Broken = time.Hour, 1
		run := submitPack(t, w, 2, nil)
		time.AfterFunc(9*time.Minute, func() {
			if got := casesOf(t, w); got != "running true 1, running false 0, " {
				t.Errorf("on the first site they are %s", got)
			}
			w.sites["a"].Silence(errSilent)
		})
		time.AfterFunc(20*time.Minute, func() { declareLost(t, w, run, nil) })
		if got, err := w.driveFor(t, run, 10*time.Hour); err != nil || got.State != state.Succeeded {
			t.Errorf("got %+v, %v\n%s", got, err, history(t, w, run.ID))
		}
		if got := casesOf(t, w); got != "succeeded true 2, succeeded true 2, " {
			t.Errorf("at the end they are %s", got)
		}
		for id, want := range map[string]string{"case0001": "[{a [1]}]", "case0002": "[]", run.ID: "[{a [1]}]"} {
			lost := []event.Fields{}
			for _, e := range controltest.EventsOf(t, w.Store, id, event.KindCasesLost) {
				lost = append(lost, e.Fields)
			}
			if fmt.Sprint(lost) != want {
				t.Errorf("the history of %s has %v, want %s", id, lost, want)
			}
		}
		w.Store.Close()
	})
}

// TestAFailedCaseStopsOtherPacks, as its head reports it. What has not begun beside it is stopped, and has
// not failed.
func TestAFailedCaseStopsOtherPacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		head := w.sites["a"].Head
		caseEvents(head, 1, -1, 2, -2)
		for _, e := range head.Events {
			if e.Case != nil && e.Case.Number == 2 && e.Case.Ended() {
				e.Case.Exit.Code = 3
			}
		}
		rest := protocol.Event{Phase: core.PhaseRun, Case: &protocol.CaseEnd{Number: 3, Kind: core.Stopped.String(), Message: "not begun"}}
		head.Events = slices.Insert(head.Events, len(head.Events)-1, rest)
		run := submitPack(t, w, 3, nil)
		sub, err := submission.Of(run)
		if err != nil {
			t.Fatal(err)
		}
		sub.Array = &submission.ArrayCase{ID: submission.PacksOf("model"), Name: "model.packs", Number: 1, Of: 2, AtOnce: 1, StopAt: 1}
		if run.Submission, err = sub.Encode(); err != nil {
			t.Fatal(err)
		}
		first := state.Run{ID: "first111", State: state.Running, Submission: []byte("{}"), Case: state.Case{Array: sub.Array.ID, Name: sub.Array.Name, Number: 1, AtOnce: 1}}
		other := state.Run{ID: "other111", State: state.Queued, Submission: []byte("{}"), Case: state.Case{Array: sub.Array.ID, Name: sub.Array.Name, Number: 2, AtOnce: 1}}
		waits := state.Run{ID: "case0004", State: state.Queued, Submission: []byte("{}"), Case: state.Case{Array: "model", Number: 4, Pack: other.ID}}
		if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutRun(t.Context(), first), w.Store.PutRun(t.Context(), other), w.Store.PutRun(t.Context(), waits)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.driveFor(t, run, 10*time.Hour); err != nil {
			t.Error(err)
		}
		if got := casesOf(t, w); got != "succeeded true 1, failed true 1, stopped false 1, stopped false 0, " {
			t.Errorf("they are %s\n%s", got, history(t, w, run.ID))
		}
		w.Store.Close()
	})
}

// TestAStoppedPackWhoseHostsAreGone: no case has succeeded whose outputs are gone with them.
func TestAStoppedPackWhoseHostsAreGone(t *testing.T) {
	w := newWorld(t, "a")
	run, zero := submitPack(t, w, 2, nil), 0
	run.State = state.Running
	ended := state.Run{ID: "case0001", State: state.Running, ExitCode: &zero, EndedIn: 1, Submission: []byte("{}"), Case: state.Case{Array: "model", Number: 1, Pack: run.ID}}
	handle := core.Handle{Driver: "fake", Version: 1, Owner: core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}, Data: json.RawMessage(`{}`)}
	rec := state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "fake", Lease: &handle, State: state.Computing, Started: time.Now()}
	if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutRun(t.Context(), ended), w.Store.PutAttempt(t.Context(), rec, false)); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	close(stop)
	if got := w.drive(t, run, stop); got.State != state.Stopped {
		t.Errorf("got %+v", got)
	}
	if got := casesOf(t, w); got != "stopped false 0, stopped false 0, " {
		t.Errorf("they are %s", got)
	}
	if lost := controltest.EventsOf(t, w.Store, run.ID, event.KindCasesLost); len(lost) != 1 {
		t.Errorf("the history has %+v", lost)
	}
}

// TestAStoppedPackCollects: a case has succeeded whose outputs were there, by the word of the head
// or among what a lost one has left.
func TestAStoppedPackCollects(t *testing.T) {
	for kind, listed := range map[string][]protocol.OutputMatch{"stopped": {{Index: 0, Path: "volume/case-1/result"}}, "lost": nil} {
		w, out := newWorld(t, "a"), t.TempDir()
		f, stop := w.sites["a"], make(chan struct{})
		f.Head = controltest.Events(protocol.Result{Kind: kind, Message: "host f0 was lost", Outputs: listed})
		caseEvents(f.Head, 1, -1, 2, -2, 3)
		testkit.WriteFiles(t, protocol.VolumeDir(f.Dir), map[string]string{"case-1/result": "1"})
		var outputs []spec.Output
		for n := 1; n <= 3; n++ {
			outputs = append(outputs, spec.Output{From: fmt.Sprintf("/work/case-%d/result", n), To: filepath.Join(out, fmt.Sprint(n))})
		}
		run := submitPack(t, w, 3, outputs)
		w.Report = func(e protocol.Event) {
			if e.Phase == core.PhaseRun && e.End {
				close(stop)
			}
		}
		if got := w.drive(t, run, stop); got.State != state.Stopped {
			t.Errorf("%s: got %+v", kind, got)
		}
		if got := casesOf(t, w); got != "succeeded true 1, stopped false 1, stopped false 0, " {
			t.Errorf("%s: they are %s", kind, got)
		}
		if got := testkit.Files(t, out); !same(got, map[string]string{"1/result": "1"}) {
			t.Errorf("%s: there came %q", kind, got)
		}
	}
}

// TestCasesOfAPackWhoseHeadIsLost: the record in its volume counts, also where a power failure has
// taken the journal of the head. Cases that had ended before are no reason to copy the volume, and
// their results are of the attempt in which they were had.
func TestCasesOfAPackWhoseHeadIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		before bool // both cases had ended before
		want   string
	}{
		"the journal is gone":   {want: "succeeded true 1, succeeded true 2, "},
		"they had ended before": {before: true, want: "succeeded true 2, succeeded true 2, "},
	} {
		w := newWorld(t, "a", "b")
		a, b := w.sites["a"], w.sites["b"]
		a.Head, a.Once = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"}), true
		restored := protocol.Event{Phase: core.PhaseRun, Rank: -1, Case: &protocol.CaseEnd{Number: 1, Exit: &core.Exit{}}}
		if c.before {
			journal(t, a.Dir, restored)
			caseEvents(b.Head, 1, -1, 2, -2)
		} else {
			caseEvents(b.Head, 2, -2)
			b.Head.Events = slices.Insert(b.Head.Events, 1, restored)
		}
		testkit.WriteFiles(t, protocol.VolumeDir(a.Dir), map[string]string{protocol.CasesFile: "{\"number\":1,\"exit\":{\"code\":0}}\n\n{\"number\":2}\n", "case-1/result": "1"})
		run := submitPack(t, w, 2, nil)
		if got := w.drive(t, run, nil); got.State != state.Succeeded {
			t.Errorf("%s: got %+v\n%s", name, got, history(t, w, run.ID))
		}
		if got := casesOf(t, w); got != c.want {
			t.Errorf("%s: they are %s, want %s", name, got, c.want)
		}
		if kept := w.attempts(t, run)[1].Restored; (kept == 1) == c.before {
			t.Errorf("%s: the checkpoint of attempt %d was restored", name, kept)
		}
	}
}

// TestACaseOfAnEarlierBeeBeginsAgain where its result, of an unknown attempt, was lost.
func TestACaseOfAnEarlierBeeBeginsAgain(t *testing.T) {
	w := newWorld(t, "a")
	run, three := submitPack(t, w, 1, nil), 3
	earlier := state.Run{ID: "case0001", State: state.Running, ExitCode: &three, Submission: []byte("{}"), Case: state.Case{Array: "model", Number: 1, Pack: run.ID}}
	if err := w.Store.PutRun(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	caseEvents(w.sites["a"].Head, 1, -1)
	w.drive(t, run, nil)
	if got := casesOf(t, w); got != "succeeded true 1, " {
		t.Errorf("they are %s", got)
	}
}
