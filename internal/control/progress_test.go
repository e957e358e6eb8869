package control

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestARunDoesNotGoRoundInCircles: it waits for its user after a while, and until then
// does not flood its site with jobs.
func TestARunDoesNotGoRoundInCircles(t *testing.T) {
	for name, c := range map[string]struct {
		writes   func(try int) string
		attempts int
		rests    time.Duration
		reason   state.SuspendReason
	}{
		"with the same again":        {func(int) string { return "1" }, 1 + placement.MostUnchanged, 6 * time.Second, state.ReasonNoProgress},
		"with little, and that soon": {strconv.Itoa, placement.MostShort, 8 * time.Minute, state.ReasonTooShort},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, begun := newWorld(t, "a"), time.Now()
				w.sites["a"].head = saving()
				tries := 0
				w.sites["a"].onAcquire = func() error {
					tries++
					leaveVolume(t, w.sites["a"].dir, c.writes(tries))
					return nil
				}
				got := w.drive(t, w.submitJob(t, movable()), nil)
				if got.State != state.Suspended || got.Suspended != c.reason || got.Message == "" || tries != c.attempts || time.Since(begun) < c.rests {
					t.Fatalf("after %d attempts in %v: %+v", tries, time.Since(begun), got)
				}
				w.nothingHeld(t)
				w.sites["a"].head = succeeding()
				resumed, err := w.Resume(t.Context(), got, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := w.drive(t, resumed, nil); got.State != state.Succeeded {
					t.Errorf("resumed, it ended as %+v", got)
				}
				w.Store.Close()
			})
		})
	}
}

// TestARunIsNotContinuedForEver, however much each attempt changes. Resuming such a run
// allows as many attempts again.
func TestARunIsNotContinuedForEver(t *testing.T) {
	for name, result := range map[string]protocol.Result{
		"as it saves itself":         {Continue: true},
		"as its sites are lost":      {Kind: core.Lost.String(), Message: "a host was lost"},
		"as it ends after an answer": {Continue: true, Answer: core.AnswerDied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, tries, most := newWorld(t, "a"), 0, 2
				a := w.sites["a"]
				w.maxMoves = most
				a.onAcquire = func() error {
					tries++
					if a.head = events(result); !result.Continue {
						a.head.events = slices.Insert(a.head.events, 2, protocol.Event{Phase: core.PhaseRun, Rank: -1, Snapshot: 1})
					}
					leaveVolume(t, a.dir, strconv.Itoa(tries))
					testkit.WriteFiles(t, protocol.SnapshotDir(a.dir, 1), map[string]string{"state": strconv.Itoa(tries)})
					journal(t, a.dir, a.head.events...)
					return nil
				}
				job := movable()
				job.Checkpoint.Paths = []string{"/work/state"}
				run := w.submitJob(t, job)
				for round := 1; round <= 2; round++ {
					run = w.drive(t, run, nil)
					if run.State != state.Suspended || run.Kind != core.Permanent.String() || !strings.Contains(run.Remedy, "bee resume "+run.ID) || tries != round*most+1 {
						t.Fatalf("after %d attempts: %+v", tries, run)
					}
					w.nothingHeld(t)
					resumed, err := w.Resume(t.Context(), run, nil)
					if err != nil {
						t.Fatal(err)
					}
					run = resumed
				}
				w.Store.Close()
			})
		})
	}
}

// TestARunGoesOnWithWhatItBeganWith, though its inputs are gone from home, and its image's
// name means another one.
func TestARunGoesOnWithWhatItBeganWith(t *testing.T) {
	w := newWorld(t, "a", "b")
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := movable()
	job.Inputs = []spec.Input{{From: input, To: "/work/in/"}}
	w.sites["a"].head = saving()
	w.sites["a"].onAcquire = func() error { leaveVolume(t, w.sites["a"].dir, "1"); return nil }
	w.sites["a"].once, w.sites["b"].probe = true, driver.Facts{Reason: "not now"}
	run := w.submitJob(t, job)
	if run = w.drive(t, run, nil); run.State != state.Suspended {
		t.Fatalf("got %+v", run)
	}
	if err := os.Remove(input); err != nil {
		t.Fatal(err)
	}
	w.Images = fakeImages{next: "sha256:y"}
	w.sites["b"].probe = driver.Facts{Usable: true}
	resumed, err := w.Resume(t.Context(), run, []spec.Site{{Name: "b", Provider: "fake"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.drive(t, resumed, nil); got.State != state.Succeeded || got.Image != "sha256:x" {
		t.Errorf("got %+v", got)
	}
}

// TestAHostThatIsLostBeforeTheFirstCheckpoint is the site's failure: the run begins again,
// unless it was the job that could not save itself in time, and not for ever.
func TestAHostThatIsLostBeforeTheFirstCheckpoint(t *testing.T) {
	lost := protocol.Result{Kind: core.Lost.String(), Message: "host f0 was lost"}
	asked := events(lost)
	asked.events = slices.Insert(asked.events, 1, protocol.Event{Phase: core.PhaseCheckpoint, Begin: true, Time: time.Unix(1, 0)})
	for name, c := range map[string]struct {
		head     *fakeHead
		times    int
		attempts int
		ends     state.RunState
	}{
		"once":               {events(lost), 1, 2, state.Succeeded},
		"again and again":    {events(lost), 100, placement.MostLost + 1, state.Failed},
		"as it saved itself": {asked, 100, 1, state.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w, tries := newWorld(t, "a"), 0
			w.sites["a"].onAcquire = func() error {
				if w.sites["a"].head = c.head; tries >= c.times {
					w.sites["a"].head = succeeding()
				}
				tries++
				return nil
			}
			if got := w.drive(t, w.submitJob(t, movable()), nil); got.State != c.ends || tries != c.attempts {
				t.Errorf("after %d attempts: %+v", tries, got)
			}
			w.nothingHeld(t)
		})
	}
}
