package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestATakenOverRunTellsWhatTheOtherOneLeft: its hosts are not this installation's to
// give back, so somebody has to know of them.
func TestATakenOverRunTellsWhatTheOtherOneLeft(t *testing.T) {
	w := newWorld(t, "a")
	dir := t.TempDir()
	w.Place = func(string) (checkpoint.Place, error) { return checkpoint.Root(dir), nil }
	run := state.Run{ID: "aaaa1111", Name: "pi", State: state.Suspended, Created: time.Now(), Submission: []byte("{}")}
	d := &drive{c: w.Controller, run: run, sub: Submission{Job: spec.Job{Store: dir}, StoreName: "other@aaaa1111"}}
	defer d.closeStore()
	lease := &core.Handle{Driver: "fake", Owner: core.Owner{User: "other", Run: run.ID, Attempt: 2}}
	attempts := []state.Attempt{
		{Run: run.ID, N: 1, Site: "rack", Released: true},
		{Run: run.ID, N: 2, Site: "hall", Lease: lease, Record: state.Record{Launched: true, Hosts: []core.Host{{Name: "n1"}, {Name: "n2"}}}},
		{Run: run.ID, N: 3, Site: "cellar"},
	}
	if _, err := w.enter(t.Context(), d, attempts, []checkpoint.Kept{{Manifest: checkpoint.Manifest{Attempt: 2}}}); err != nil {
		t.Fatal(err)
	}
	notes, err := w.Store.Notes(t.Context(), run.ID)
	if err != nil || len(notes) != 2 {
		t.Fatalf("got %v and %v, want two notes", notes, err)
	}
	for i, want := range []string{"n1, n2 of site hall may still be held, and compute, by attempt 2", "hosts of site cellar may have been asked for by attempt 3"} {
		if !strings.Contains(notes[i].Text, want) || !strings.Contains(notes[i].Text, "aaaa1111 in its name") {
			t.Errorf("it says %q, want %q", notes[i].Text, want)
		}
	}
	held, err := w.Store.Unreleased(t.Context())
	if err != nil || len(held) > 0 {
		t.Errorf("it is this one's to give back: %v, %v", held, err)
	}
}

// TestARecordOfManyAttemptsIsTakenOver in little time: it may be as long as whoever writes to
// the store likes.
func TestARecordOfManyAttemptsIsTakenOver(t *testing.T) {
	w, dir := newWorld(t, "a"), t.TempDir()
	w.Place = func(string) (checkpoint.Place, error) { return checkpoint.Root(dir), nil }
	run := state.Run{ID: "aaaa1111", Name: "pi", State: state.Suspended, Created: time.Now(), Submission: []byte("{}")}
	d := &drive{c: w.Controller, run: run, sub: Submission{Job: spec.Job{Store: dir}, StoreName: "other@aaaa1111"}}
	defer d.closeStore()
	const many = 5000
	attempts := make([]state.Attempt, many)
	for i := range attempts {
		attempts[i] = state.Attempt{Run: run.ID, N: i + 1, Site: "hall"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := w.enter(ctx, d, attempts, []checkpoint.Kept{{Manifest: checkpoint.Manifest{Attempt: 2}}}); err != nil {
		t.Fatal(err)
	}
	notes, err := w.Store.Notes(t.Context(), run.ID)
	if err != nil || len(notes) != mostLeft+1 {
		t.Errorf("%d notes, %v", len(notes), err)
	}
	if got, err := w.Store.Attempts(t.Context(), run.ID); err != nil || len(got) != many {
		t.Errorf("%d attempts, %v", len(got), err)
	}
}
