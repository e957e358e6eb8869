package runner

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// TestHowMuchOfACheckpointIsStillToCome is reported, by the size that its head has counted.
func TestHowMuchOfACheckpointIsStillToCome(t *testing.T) {
	w := newWorld(t, "a", "b")
	a := w.sites["a"]
	leaveVolume(t, a.Dir, "state")
	copied := protocol.SnapshotDir(a.Dir, 1)
	if err := errors.Join(os.MkdirAll(copied, 0o700), os.WriteFile(filepath.Join(copied, "state"), []byte("sta"), 0o600)); err != nil {
		t.Fatal(err)
	}
	events := []protocol.Event{
		{Phase: core.PhaseRun, Begin: true},
		{Phase: core.PhaseRun, Snapshot: 1, Bytes: 3},
		{Result: &protocol.Result{Continue: true, Bytes: 5, Message: "its slot ends", Outputs: []protocol.OutputMatch{}}},
	}
	a.Head = &controltest.Head{Lasts: 200 * time.Millisecond, Events: events}
	var totals []int64
	w.Report = func(e protocol.Event) {
		if e.Phase == core.PhaseCollect && e.Total > 0 {
			totals = append(totals, e.Total)
		}
	}
	if run := w.drive(t, w.submitJob(t, controltest.Movable()), nil); run.State != state.Succeeded || !slices.Equal(totals, []int64{3, 5}) {
		t.Errorf("%+v: told of %v", run, totals)
	}
}

// TestHowMuchIsStillToCome, as long as it is known: what has travelled twice is more than all.
func TestHowMuchIsStillToCome(t *testing.T) {
	var got []protocol.Event
	c := &Runner{Report: func(e protocol.Event) {
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
