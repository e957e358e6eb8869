package runner

import (
	"fmt"
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

// TestCasesOfALostSite run again, and their histories name those whose results were there.
func TestCasesOfALostSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		caseEvents(w.sites["a"].Head, 1, -1, 2)
		caseEvents(w.sites["b"].Head, 1, -1, 2, -2, 1) // the last of which a head of ours never reports
		w.sites["a"].Head.Lasts, w.sites["a"].Head.Broken = time.Hour, 1
		job := controltest.Movable()
		job.Pack = []spec.PackedCase{{Number: 1, Run: "case0001", Collects: true}, {Number: 2, Run: "case0002", Collects: true}}
		run, lock, err := submission.Submit(t.Context(), w.Store, submission.Submission{Job: job, Sites: []spec.Site{{Name: "a", Provider: "fake"}, {Name: "b", Provider: "fake"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lock.Unlock() })
		for _, c := range job.Pack {
			if err := w.Store.PutRun(t.Context(), state.Run{ID: c.Run, State: state.Queued, Submission: []byte("{}"), Case: state.Case{Array: "model", Number: c.Number, Pack: run.ID}}); err != nil {
				t.Fatal(err)
			}
		}
		cases := func() (text string) {
			runs, err := w.Store.Arrays().Runs(t.Context(), "model")
			if err != nil {
				t.Error(err)
			}
			for _, r := range runs {
				text += fmt.Sprintf("%s %t %d, ", r.State, r.ExitCode != nil, r.EndedIn)
			}
			return text
		}
		time.AfterFunc(9*time.Minute, func() {
			if got := cases(); got != "running true 1, running false 0, " {
				t.Errorf("on the first site they are %s", got)
			}
			w.sites["a"].Silence(errSilent)
		})
		time.AfterFunc(20*time.Minute, func() { declareLost(t, w, run, nil) })
		if got, err := w.driveFor(t, run, 10*time.Hour); err != nil || got.State != state.Succeeded {
			t.Errorf("got %+v, %v\n%s", got, err, history(t, w, run.ID))
		}
		if got := cases(); got != "succeeded true 2, succeeded true 2, " {
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
