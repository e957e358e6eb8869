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

// TestHowMuchIsStillToCome, as long as it is known: what has travelled twice is more than all.
func TestHowMuchIsStillToCome(t *testing.T) {
	var got []protocol.Event
	c := &Controller{Report: func(e protocol.Event) {
		got = append(got, protocol.Event{Message: e.Message, Done: e.Done, Total: e.Total})
	}}
	for _, done := range []int64{4, 30, 32} {
		c.toward(core.PhaseCollect, "fetching", 30)(done)
	}
	want := []protocol.Event{{Message: "fetching", Done: 4, Total: 30}, {Message: "fetching", Done: 30, Total: 30}, {Message: "fetching", Done: 32}}
	if !slices.EqualFunc(got, want, func(a, b protocol.Event) bool {
		return a.Message == b.Message && a.Done == b.Done && a.Total == b.Total
	}) {
		t.Errorf("reported:\n%+v, want\n%+v", got, want)
	}
}
