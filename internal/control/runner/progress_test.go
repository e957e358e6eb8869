package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
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
				w.sites["a"].Head = saving()
				tries := 0
				w.sites["a"].OnAcquire = func() error {
					tries++
					leaveVolume(t, w.sites["a"].Dir, c.writes(tries))
					return nil
				}
				got := w.drive(t, w.submitJob(t, controltest.Movable()), nil)
				if got.State != state.Suspended || got.Suspended != c.reason || got.Message == "" || tries != c.attempts || time.Since(begun) < c.rests {
					t.Fatalf("after %d attempts in %v: %+v", tries, time.Since(begun), got)
				}
				w.nothingHeld(t)
				w.sites["a"].Head = controltest.Succeeding()
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
				a.OnAcquire = func() error {
					tries++
					if a.Head = controltest.Events(result); !result.Continue {
						a.Head.Events = slices.Insert(a.Head.Events, 2, protocol.Event{Phase: core.PhaseRun, Rank: -1, Snapshot: 1})
					}
					leaveVolume(t, a.Dir, strconv.Itoa(tries))
					testkit.WriteFiles(t, protocol.SnapshotDir(a.Dir, 1), map[string]string{"state": strconv.Itoa(tries)})
					journal(t, a.Dir, a.Head.Events...)
					return nil
				}
				job := controltest.Movable()
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
	job := controltest.Movable()
	job.Inputs = []spec.Input{{From: input, To: "/work/in/"}}
	w.sites["a"].Head = saving()
	w.sites["a"].OnAcquire = func() error { leaveVolume(t, w.sites["a"].Dir, "1"); return nil }
	w.sites["a"].Once, w.sites["b"].Facts = true, driver.Facts{Reason: "not now"}
	run := w.submitJob(t, job)
	if run = w.drive(t, run, nil); run.State != state.Suspended {
		t.Fatalf("got %+v", run)
	}
	if err := os.Remove(input); err != nil {
		t.Fatal(err)
	}
	w.Images = controltest.Images{Next: "sha256:y"}
	w.sites["b"].Facts = driver.Facts{Usable: true}
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
	asked := controltest.Events(lost)
	asked.Events = slices.Insert(asked.Events, 1, protocol.Event{Phase: core.PhaseCheckpoint, Begin: true, Time: time.Unix(1, 0)})
	over := lost
	over.SlotEnded = true
	plain, restarts := controltest.Movable(), controltest.Movable()
	plain.Checkpoint, restarts.Checkpoint, restarts.Restarts = nil, nil, true
	for name, c := range map[string]struct {
		job      spec.Job
		head     *controltest.Head
		times    int
		attempts int
		ends     state.RunState
	}{
		"once":                             {controltest.Movable(), controltest.Events(lost), 1, 2, state.Succeeded},
		"again and again":                  {controltest.Movable(), controltest.Events(lost), 100, placement.MostLost + 1, state.Failed},
		"as it saved itself":               {controltest.Movable(), asked, 100, 1, state.Failed},
		"without a checkpoint":             {plain, controltest.Events(lost), 1, 1, state.Failed},
		"and the job restarts":             {restarts, controltest.Events(lost), 1, 2, state.Succeeded},
		"and the job restarts for ever":    {restarts, controltest.Events(lost), 100, placement.MostLost + 1, state.Failed},
		"as the slot of one that restarts": {restarts, controltest.Events(over), 1, 1, state.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w, tries := newWorld(t, "a"), 0
			w.sites["a"].OnAcquire = func() error {
				if w.sites["a"].Head = c.head; tries >= c.times {
					w.sites["a"].Head = controltest.Succeeding()
				}
				tries++
				return nil
			}
			if got := w.drive(t, w.submitJob(t, c.job), nil); got.State != c.ends || tries != c.attempts {
				t.Errorf("after %d attempts: %+v", tries, got)
			}
			w.nothingHeld(t)
		})
	}
}

// TestSpotMachinesThatAreLost: after two, the run uses machines on demand.
func TestSpotMachinesThatAreLost(t *testing.T) {
	w, tries := newWorld(t, "a"), 0
	site := w.sites["a"]
	w.Provider = func(s spec.Site) (driver.Provider, error) {
		site.Spot = s.AWS.Market[0] == spec.MarketSpot
		return site, nil
	}
	site.OnAcquire = func() error {
		site.Head = controltest.Events(protocol.Result{Kind: core.Lost.String(), Message: "host f0 was lost"})
		if tries++; tries == 4 {
			site.Head = controltest.Succeeding()
		}
		return nil
	}
	run := w.submitJob(t, controltest.Movable())
	sub, err := submission.Of(run)
	if err != nil {
		t.Fatal(err)
	}
	sub.Sites = []spec.Site{{Name: "a", Provider: "aws", AWS: &spec.AWS{Market: []string{spec.MarketSpot, spec.MarketOnDemand}}}}
	if run.Submission, err = json.Marshal(sub); err != nil {
		t.Fatal(err)
	}
	if err := w.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Errorf("got %+v", got)
	}
	var spots []bool
	for _, at := range w.attempts(t, run) {
		spots = append(spots, at.Hosts[0].Spot)
	}
	if want := []bool{true, true, false, false}; !slices.Equal(spots, want) {
		t.Errorf("spot machines were used: %v, expected %v", spots, want)
	}
	if text := history(t, w, run.ID); strings.Count(text, string(event.KindOnDemand)+" ") != 2 {
		t.Errorf("the history has\n%s", text)
	}
}
