package control

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// TestHowMuchOfTheOutputsIsStillToCome: of all of them together, as long as it is known.
func TestHowMuchOfTheOutputsIsStillToCome(t *testing.T) {
	var got []protocol.Event
	a := &attempt{runner: &drive{}, controlled: control(&Controller{Report: func(e protocol.Event) {
		got = append(got, protocol.Event{Message: e.Message, Done: e.Done, Total: e.Total})
	}}, state.Run{}, Submission{})}
	told := a.fetchingAll([]output{{remote: "a", bytes: 10}, {remote: "b", bytes: 20}})
	told(0, 4)
	told(1, 20)
	told(0, 12) // a part of it has travelled twice
	told = a.fetchingAll([]output{{remote: "x/c", bytes: 7}})
	told(0, 7)
	want := []protocol.Event{
		{Message: "fetching 2 outputs", Done: 4, Total: 30},
		{Message: "fetching 2 outputs", Done: 24, Total: 30},
		{Message: "fetching 2 outputs", Done: 32},
		{Message: "fetching c", Done: 7, Total: 7},
	}
	if !slices.EqualFunc(got, want, func(a, b protocol.Event) bool {
		return a.Message == b.Message && a.Done == b.Done && a.Total == b.Total
	}) {
		t.Errorf("told:\n%+v, want\n%+v", got, want)
	}
}

// TestHowMuchOfACheckpointIsStillToCome home, by what its head has counted.
func TestHowMuchOfACheckpointIsStillToCome(t *testing.T) {
	w := newWorld(t, "a", "b")
	a := w.sites["a"]
	leaveVolume(t, a.dir, "state")
	copied := protocol.SnapshotDir(a.dir, 1)
	if err := errors.Join(os.MkdirAll(copied, 0o700), os.WriteFile(filepath.Join(copied, "state"), []byte("sta"), 0o600)); err != nil {
		t.Fatal(err)
	}
	events := []protocol.Event{
		{Phase: core.PhaseRun, Begin: true},
		{Phase: core.PhaseRun, Snapshot: 1, Bytes: 3},
		{Result: &protocol.Result{Continue: true, Bytes: 5, Message: "its slot ends", Outputs: []protocol.OutputMatch{}}},
	}
	a.head = &fakeHead{lasts: 200 * time.Millisecond, events: events}
	var totals []int64
	w.Report = func(e protocol.Event) {
		if e.Message == "fetching the checkpoint" {
			totals = append(totals, e.Total)
		}
	}
	if run := w.drive(t, w.submitJob(t, movable()), nil); run.State != state.Succeeded || !slices.Equal(totals, []int64{3, 5}) {
		t.Errorf("%+v: told of %v", run, totals)
	}
}
