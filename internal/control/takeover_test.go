package control

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// TestATakenOverRunTellsWhatTheOtherOneLeft: this installation cannot release the hosts of
// the other one, so the history of the run names them.
func TestATakenOverRunTellsWhatTheOtherOneLeft(t *testing.T) {
	w := newWorld(t, "a")
	dir := t.TempDir()
	w.OpenStore = func(string) (driver.Store, error) { return dirstore.Store(dir), nil }
	run := state.Run{ID: "aaaa1111", Name: "pi", State: state.Suspended, Created: time.Now(), Submission: []byte("{}")}
	sub := submission.Submission{Job: spec.Job{Store: dir}, StoreName: "other@aaaa1111"}
	kept := w.Kept().Of(&run, sub.Job.Store, sub.StoreName)
	defer kept.Close()
	lease := &core.Handle{Driver: "fake", Owner: core.Owner{User: "other", Run: run.ID, Attempt: 2}}
	attempts := []state.Attempt{
		{Run: run.ID, N: 1, Site: "rack", State: state.Closed},
		{Run: run.ID, N: 2, Site: "hall", Lease: lease, State: state.Computing, Record: state.Record{Hosts: []core.Host{{Name: "n1"}, {Name: "n2"}}}},
		{Run: run.ID, N: 3, Site: "cellar"},
	}
	if _, err := w.enter(t.Context(), run, &sub, kept, attempts, []driver.Checkpoint{{Manifest: driver.Manifest{Attempt: 2}}}); err != nil {
		t.Fatal(err)
	}
	list := controltest.EventsOf(t, w.Store, run.ID)
	if len(list) != 2 || list[0].Attempt != 2 || list[1].Attempt != 3 {
		t.Fatalf("got %+v, want an event of attempts 2 and 3 each", list)
	}
	for i, want := range []event.ForeignAttempt{{Site: "hall", Hosts: []string{"n1", "n2"}, Leased: true, Computes: true}, {Site: "cellar"}} {
		if !reflect.DeepEqual(list[i].Fields, want) {
			t.Errorf("got %+v, want %+v", list[i].Fields, want)
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
	w.OpenStore = func(string) (driver.Store, error) { return dirstore.Store(dir), nil }
	run := state.Run{ID: "aaaa1111", Name: "pi", State: state.Suspended, Created: time.Now(), Submission: []byte("{}")}
	sub := submission.Submission{Job: spec.Job{Store: dir}, StoreName: "other@aaaa1111"}
	kept := w.Kept().Of(&run, sub.Job.Store, sub.StoreName)
	defer kept.Close()
	const many = 5000
	attempts := make([]state.Attempt, many)
	for i := range attempts {
		attempts[i] = state.Attempt{Run: run.ID, N: i + 1, Site: "hall"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := w.enter(ctx, run, &sub, kept, attempts, []driver.Checkpoint{{Manifest: driver.Manifest{Attempt: 2}}}); err != nil {
		t.Fatal(err)
	}
	if list := controltest.EventsOf(t, w.Store, run.ID); len(list) != mostLeft+1 || list[mostLeft].Fields != (event.ForeignAttempts{Count: many - mostLeft}) {
		t.Errorf("%d events: %+v", len(list), list[len(list)-1])
	}
	if got, err := w.Store.Attempts(t.Context(), run.ID); err != nil || len(got) != many {
		t.Errorf("%d attempts, %v", len(got), err)
	}
}

// TestAPackIsNotTakenOver: the records of its cases are on the other machine, and without
// them it would end and have run no case.
func TestAPackIsNotTakenOver(t *testing.T) {
	job := spec.Job{Name: "model.packs.1", Image: "debian:12", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Run: &spec.Command{Shell: "true"}}
	for _, pack := range [][]spec.PackedCase{nil, {{Number: 1, Run: "bbbb1111"}}} {
		job.Pack = pack
		raw, err := json.Marshal(submission.Submission{Version: submission.Version, Job: job})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = adopted(retention.Record{Run: state.Run{ID: "aaaa1111", Submission: raw}}, t.TempDir())
		if core.IsKind(err, core.Unsupported) != (pack != nil) || pack == nil && err != nil {
			t.Errorf("%v: %v", pack, err)
		}
	}
}
