package runner

import (
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

func saving() *controltest.Head {
	return controltest.Events(protocol.Result{Continue: true, Outputs: []protocol.OutputMatch{}})
}

func leaveVolume(t *testing.T, dir, text string) {
	t.Helper()
	volume := protocol.VolumeDir(dir)
	if err := errors.Join(os.MkdirAll(volume, 0o755), os.WriteFile(filepath.Join(volume, "state"), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestARunGoesOnOnTheNextSite(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.sites["a"].Head = saving()
	leaveVolume(t, w.sites["a"].Dir, "1")
	run := w.submitJob(t, controltest.Movable())
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Errorf("got %+v", got)
	}
	attempts, err := w.Store.Attempts(t.Context(), run.ID)
	if err != nil || len(attempts) != 2 || attempts[1].Site != "b" || !attempts[0].Verdict.Goes() {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
	w.nothingHeld(t)
}

// TestWhyARunMovedIsInItsHistory, with what had its job save itself.
func TestWhyARunMovedIsInItsHistory(t *testing.T) {
	for message, want := range map[string]string{
		"no time": "no time: ",
		"":        "exit code 85: ",
	} {
		w := newWorld(t, "a", "b")
		w.sites["a"].Head = controltest.Events(protocol.Result{Continue: true, Kind: core.Lost.String(), Message: message, Remedy: "Raise it.", Outputs: []protocol.OutputMatch{}})
		leaveVolume(t, w.sites["a"].Dir, "1")
		run := w.submitJob(t, controltest.Movable())
		meanwhile := ""
		w.sites["a"].OnFetch = func(string) {
			if list, err := w.Store.Attempts(t.Context(), run.ID); err == nil && list[0].Message != "" && list[0].Remedy == "" {
				meanwhile = list[0].Message
			}
		}
		w.drive(t, run, nil)
		testkit.Wording(t, want+"meanwhile", meanwhile)
		list := slices.DeleteFunc(controltest.EventsOf(t, w.Store, run.ID), func(e event.Event) bool { return e.Is(event.KindAttemptState) })
		if moved, is := list[0].Fields.(event.Moved); !is || list[0].Attempt != 1 || moved.Site != "a" || !strings.HasPrefix(moved.Cause.Message, want) {
			t.Errorf("history %+v, want %q", list, want)
		}
	}
}

// TestASetupThatWasCutShortIsBegunAnew on the next site, whether anybody watched or not,
// and so is no checkpoint: what it has left is not gone on from.
func TestASetupThatWasCutShortIsBegunAnew(t *testing.T) {
	setup := []protocol.Event{{Seq: 1, Phase: core.PhaseSetup, Begin: true}}
	run := append(slices.Clone(setup), protocol.Event{Seq: 2, SetupDone: true}, protocol.Event{Seq: 3, Phase: core.PhaseRun, Begin: true},
		protocol.Event{Seq: 4, Phase: core.PhaseCheckpoint, Begin: true, Time: time.Now()})
	cut := protocol.Result{Kind: core.Lost.String(), Message: "the site's time slot has ended", Outputs: []protocol.OutputMatch{}}
	for name, c := range map[string]struct {
		events  []protocol.Event
		watched bool
		state   state.RunState
		sites   int
	}{
		"watched":                         {setup, true, state.Succeeded, 2},
		"with nobody watching":            {setup, false, state.Succeeded, 2},
		"a command, watched":              {run, true, state.Failed, 1},
		"a command, with nobody watching": {run, false, state.Failed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a", "b")
			a := w.sites["a"]
			job := controltest.Movable()
			job.Run, job.Setup = &spec.Command{Shell: "run"}, &spec.Command{Shell: "setup"}
			run := w.submitJob(t, job)
			if a.Head = (&controltest.Head{Events: append(slices.Clone(c.events), protocol.Event{Seq: int64(len(c.events) + 1), Result: &cut})}); !c.watched {
				a.Head = nil
				journal(t, a.Dir, c.events...)
				raw, err := json.Marshal(cut)
				if err == nil {
					err = os.WriteFile(protocol.ResultPath(a.Dir), raw, 0o600)
				}
				owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
				a.Held[owner] = true
				rec := state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "fake", Started: time.Now(), State: state.Computing, Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}
				run.State = state.Running
				if err = errors.Join(err, w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), rec, false)); err != nil {
					t.Fatal(err)
				}
			}
			got := w.drive(t, run, nil)
			if attempts := w.attempts(t, run); got.State != c.state || len(attempts) != c.sites || c.sites == 2 && (attempts[1].Site != "b" || got.SetupDone) {
				t.Fatalf("got %+v, after %+v", got, attempts)
			}
			var config protocol.Config
			if err := json.Unmarshal(w.sites["b"].Launched.Config, &config); c.sites == 2 && (err != nil || config.Plan.Setup == nil) {
				t.Errorf("there is no setup on the next site: %+v, %v", config.Plan, err)
			}
			w.nothingHeld(t)
		})
	}
}

// TestWhatAHeadRemarksIsInTheHistoryOnce, also where another controller hears of it again.
func TestWhatAHeadRemarksIsInTheHistoryOnce(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submitJob(t, controltest.Movable())
	a := attemptOf(control(w.Runner, run, submission.Submission{Job: controltest.Movable()}), &drive{}, spec.Site{Name: "a"}, nil, state.Attempt{Run: run.ID, N: 1})
	for range 2 {
		if err := a.reports.handle(t.Context(), protocol.Event{Phase: core.PhaseRun, Message: "nothing is kept", Remark: true}); err != nil {
			t.Fatal(err)
		}
	}
	if list := controltest.EventsOf(t, w.Store, run.ID); len(list) != 1 || list[0].Attempt != 1 || list[0].Fields != (event.Remark{Site: "a", Message: "nothing is kept"}) {
		t.Errorf("the history has %+v", list)
	}
}

// TestWarningOfASite is in the history of each attempt there.
func TestWarningOfASite(t *testing.T) {
	w := newWorld(t, "a")
	w.sites["a"].Facts.Warning = "another's image"
	run := w.submitJob(t, controltest.Movable())
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Errorf("got %+v", got)
	}
	if !slices.ContainsFunc(controltest.EventsOf(t, w.Store, run.ID), func(e event.Event) bool {
		return e.Attempt == 1 && e.Fields == event.Remark{Site: "a", Message: "another's image"}
	}) {
		t.Errorf("the history has\n%s", history(t, w, run.ID))
	}
}

// TestHowFarMachinesAreIsRecorded until they are up, for those who look meanwhile.
func TestHowFarMachinesAreIsRecorded(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submitJob(t, controltest.Movable())
	a := attemptOf(control(w.Runner, run, submission.Submission{Job: controltest.Movable()}), &drive{}, spec.Site{Name: "a"}, nil, state.Attempt{Run: run.ID, N: 1})
	const none, one = "0 of 2 ready", "1 of 2 ready"
	for _, step := range []struct {
		e    protocol.Event
		want string
	}{
		{protocol.Event{Phase: core.PhaseStart, Begin: true}, ""},
		{protocol.Event{Phase: core.PhaseStart, Message: none, Waited: 3 * time.Second}, none},
		{protocol.Event{Phase: core.PhaseStart, Message: "another thing"}, none},
		{protocol.Event{Phase: core.PhaseStart, Message: one, Waited: 6 * time.Second}, one},
		{protocol.Event{Phase: core.PhaseStart, Runtimes: []string{"vm", "vm"}}, ""},
	} {
		if err := a.reports.handle(t.Context(), step.e); err != nil {
			t.Fatal(err)
		}
		if all := w.attempts(t, run); step.want != "" && len(all) != 1 || len(all) == 1 && all[0].Starting != step.want {
			t.Errorf("after %+v there is %+v", step.e, all)
		}
	}
}

// TestAJobThatIsTooSlowToSaveItself: the run continues from the checkpoint before or, where
// there is none, fails, with what the job has written kept at home.
func TestAJobThatIsTooSlowToSaveItself(t *testing.T) {
	killed := &controltest.Head{Events: []protocol.Event{
		{Seq: 1, Phase: core.PhaseRun, Begin: true},
		{Seq: 2, Phase: core.PhaseCheckpoint, Begin: true, Time: time.Now()},
		{Seq: 3, Result: &protocol.Result{Kind: core.Lost.String(), Message: "it had not ended", Outputs: []protocol.OutputMatch{}}},
	}}
	for name, c := range map[string]struct {
		first *controltest.Head
		state state.RunState
		left  string
	}{
		"at first":          {killed, state.Failed, "1"},
		"once there is one": {saving(), state.Succeeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a", "b", "c")
			w.sites["a"].Head, w.sites["b"].Head = c.first, killed
			leaveVolume(t, w.sites["a"].Dir, "1")
			leaveVolume(t, w.sites["b"].Dir, "2")
			run := w.submitJob(t, controltest.Movable())
			got := w.drive(t, run, nil)
			left, _ := os.ReadFile(filepath.Join(retention.UnsavedVolume(w.Store.RunDir(run.ID)), "state"))
			if got.State != c.state || string(left) != c.left {
				t.Errorf("got %+v, and %q is left", got, left)
			}
			if kept := controltest.EventsOf(t, w.Store, run.ID, event.KindVolumeKept); (len(kept) > 0) != (c.left != "") {
				t.Errorf("its history has %+v", kept)
			}
			w.nothingHeld(t)
		})
	}
}

// savedWithNowhereToGo is a run that saves itself on its only good site, which
// takes it once.
func savedWithNowhereToGo(t *testing.T) (*world, state.Run) {
	t.Helper()
	w := newWorld(t, "a", "b")
	w.sites["a"].Head = saving()
	w.sites["b"].Facts = driver.Facts{Reason: "it is down"}
	leaveVolume(t, w.sites["a"].Dir, "1")
	run := w.submitJob(t, controltest.Movable())
	w.sites["a"].Once = true
	return w, run
}

// TestASuspendedRunHoldsNothing: what could not be released when it was
// suspended is released by a later command.
func TestASuspendedRunHoldsNothing(t *testing.T) {
	w, run := savedWithNowhereToGo(t)
	gone := &core.Error{Kind: core.Transient, Err: errors.New("no way")}
	w.sites["a"].ReleaseErrors = []error{gone}
	if got := w.drive(t, run, nil); got.State != state.Suspended || len(w.sites["a"].Held) != 1 {
		t.Fatalf("got %+v, held %v", got, w.sites["a"].Held)
	}
	if got := w.drive(t, run, nil); got.State != state.Suspended {
		t.Errorf("got %+v", got)
	}
	w.nothingHeld(t)
}

// TestManyLostAttempts: with a checkpoint and no progress, a run waits for its
// user after a while; attempts that no site has taken do not count.
func TestManyLostAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.sites["a"].Head = saving()
		leaveVolume(t, w.sites["a"].Dir, "1")
		tries := 0
		w.sites["a"].OnAcquire = func() error {
			if tries++; tries > 1 {
				w.sites["a"].Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
			}
			if tries%2 == 0 {
				return &core.Error{Kind: core.Transient, Err: errors.New("not now")}
			}
			return nil
		}
		got := w.drive(t, w.submitJob(t, controltest.Movable()), nil)
		attempts, err := w.Store.Attempts(t.Context(), got.ID)
		if err != nil || got.State != state.Suspended || got.Suspended != state.ReasonLostTooOften || len(attempts) < 2*placement.MostLost || !strings.Contains(got.Message, "host f0 was lost") {
			t.Errorf("after %d attempts %+v, %v", len(attempts), got, err)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestHostsThatAreLostAgainAndAgain: a job that brings down its host each time, perhaps by
// all of its memory, comes to rest, though a copy is kept of each attempt, where those hold
// nothing new; with progress the run continues.
func TestHostsThatAreLostAgainAndAgain(t *testing.T) {
	for name, c := range map[string]struct {
		writes   func(try int) string
		copies   func(try int) int
		attempts int
		ends     state.RunState
	}{
		"with the same copy":           {func(int) string { return "1" }, func(int) int { return 1 }, placement.MostLost + 2, state.Suspended},
		"with many of them":            {func(int) string { return "1" }, func(int) int { return 3 }, placement.MostLost + 2, state.Suspended},
		"with a copy now and then":     {func(int) string { return "1" }, func(try int) int { return try % 2 }, placement.MostLost + 2, state.Suspended},
		"with a new copy each time":    {strconv.Itoa, func(int) int { return 2 }, 40, state.Succeeded},
		"with a new one now and then":  {func(try int) string { return strconv.Itoa(try / 7) }, func(int) int { return 2 }, 40, state.Succeeded},
		"with no copy at the very end": {strconv.Itoa, func(try int) int { return max(0, 10-try) }, 9 + placement.MostLost + 1, state.Suspended},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				a, tries := w.sites["a"], 0
				a.OnAcquire = func() error {
					if tries++; tries >= 40 {
						a.Head = controltest.Succeeding()
						return nil
					}
					a.Head = controltest.Events(protocol.Result{Kind: core.Lost.String(), Message: "host f0 was lost"})
					journal := ""
					for n := range c.copies(tries) {
						testkit.WriteFiles(t, protocol.SnapshotDir(a.Dir, n+1), map[string]string{"state": c.writes(tries)})
						journal += fmt.Sprintf(`{"seq":%d,"phase":"run","rank":-1,"snapshot":%d}`+"\n", n+1, n+1)
						at := len(a.Head.Events) - 1
						a.Head.Events = slices.Insert(a.Head.Events, at, protocol.Event{Phase: core.PhaseRun, Rank: -1, Snapshot: n + 1})
						a.Head.Lasts = time.Second
					}
					testkit.WriteFiles(t, a.Dir, map[string]string{"events.jsonl": journal})
					return nil
				}
				job := controltest.Movable()
				job.Checkpoint.Every = time.Second
				got := w.drive(t, w.submitJob(t, job), nil)
				if got.State != c.ends || tries != c.attempts || c.ends == state.Suspended && (got.Suspended != state.ReasonLostTooOften || !strings.Contains(got.Message, "host f0 was lost")) {
					t.Errorf("after %d attempts %+v", tries, got)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestASiteKeepsItsCopyUntilTheNextAttemptRuns, however small that is.
func TestASiteKeepsItsCopyUntilTheNextAttemptRuns(t *testing.T) {
	w := newWorld(t, "a", "b")
	a, kept := w.sites["a"], false
	a.Head, a.Yields = saving(), true
	leaveVolume(t, a.Dir, "1")
	w.sites["b"].OnAcquire = func() error {
		a.Mu.Lock()
		defer a.Mu.Unlock()
		kept = len(a.Held) == 1 && a.Yielded
		return nil
	}
	run := w.submitJob(t, controltest.Movable())
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Errorf("got %+v", got)
	}
	if !kept {
		t.Error("the first site's copy went before the second had the run")
	}
	w.nothingHeld(t)
	if attempts, err := w.Store.Attempts(t.Context(), run.ID); err != nil || len(attempts) != 2 || !attempts[0].Released() {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
}

// TestALineThatBreaksCostsNoCheckpoint: what the head of a lost attempt has kept last is
// asked for until it comes, and only then the site's copy goes.
func TestALineThatBreaksCostsNoCheckpoint(t *testing.T) {
	for name, of := range map[string]func(dir string) string{
		"as its events are read": protocol.EventsPath,
		"as it comes":            func(dir string) string { return protocol.SnapshotDir(dir, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				a := w.sites["a"]
				a.Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
				snapshot := protocol.SnapshotDir(a.Dir, 1)
				testkit.WriteFiles(t, a.Dir, map[string]string{"events.jsonl": `{"seq":1,"phase":"run","rank":-1,"snapshot":1}`})
				if err := errors.Join(os.MkdirAll(snapshot, 0o755), os.WriteFile(filepath.Join(snapshot, "state"), []byte("1"), 0o644)); err != nil {
					t.Fatal(err)
				}
				broken := 0
				a.Line = func(remote string) error {
					if remote != of(a.Dir) || broken == 2 {
						return nil
					}
					broken++
					return &core.Error{Kind: core.Lost, Err: errors.New("the line broke")}
				}
				job := controltest.Movable()
				job.Checkpoint.Every = time.Minute
				run := w.submitJob(t, job)
				got, err := w.Drive(t.Context(), run.ID, nil)
				for tries := 0; err != nil && tries < 3; tries++ { // each is another controller
					got, err = w.Drive(t.Context(), run.ID, nil)
				}
				attempts := w.attempts(t, run)
				if err != nil || got.State != state.Succeeded || len(attempts) != 2 || !attempts[0].Verdict.Goes() || broken != 2 {
					t.Errorf("got %+v, %v, after %+v; the line broke %d times", got, err, attempts, broken)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestNoSiteIsLeft suspends a run that has done something, and continues later.
func TestNoSiteIsLeft(t *testing.T) {
	w, run := savedWithNowhereToGo(t)
	got := w.drive(t, run, nil)
	if got.State != state.Suspended || !got.Ended.IsZero() {
		t.Fatalf("got %+v", got)
	}
	w.nothingHeld(t)
	if again := w.drive(t, run, nil); again.State != state.Suspended {
		t.Errorf("it continued by itself: %+v", again)
	}
	w.sites["b"].Facts = driver.Facts{Usable: true}
	resumed, err := w.Resume(t.Context(), got, []spec.Site{{Name: "b", Provider: "fake"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.drive(t, resumed, nil); got.State != state.Succeeded {
		t.Errorf("got %+v", got)
	}
	if _, err := w.Resume(t.Context(), w.drive(t, resumed, nil), nil); !core.IsKind(err, core.Invalid) {
		t.Errorf("a run that is over was resumed: %v", err)
	}
}

// TestAnotherControllerMovesARun begins where a controller died that had a
// checkpoint of the first attempt, or was about to get one.
func TestAnotherControllerMovesARun(t *testing.T) {
	for _, c := range []struct {
		name  string
		leave func(t *testing.T, w *world, a *state.Attempt)
		keeps bool // it had collected the checkpoint
	}{
		{"before the checkpoint was at home", func(_ *testing.T, w *world, a *state.Attempt) { w.sites["a"].Head = saving() }, false},
		{"with a copy that was cut short", func(t *testing.T, w *world, a *state.Attempt) {
			w.sites["a"].Head = saving()
			half := filepath.Join(w.Kept().Dir(a.Run), "1", "volume")
			if err := os.MkdirAll(half, 0o755); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"with the checkpoint at home", func(_ *testing.T, w *world, _ *state.Attempt) { w.sites["a"].Head = saving() }, true},
		{"before the release", func(_ *testing.T, _ *world, a *state.Attempt) {
			a.State, a.Result, a.Verdict = state.Releasing, state.Checkpointed, state.Continues
		}, true},
		{"with the hosts gone since", func(_ *testing.T, w *world, _ *state.Attempt) {
			w.sites["a"].Lost = true
			clear(w.sites["a"].Held)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "a", "b")
			run := w.submitJob(t, controltest.Movable())
			leaveVolume(t, w.sites["a"].Dir, "1")
			journal(t, w.sites["a"].Dir, protocol.Event{Phase: core.PhaseRun, Begin: true})
			owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
			w.sites["a"].Held[owner] = true
			rec := state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "fake", Started: time.Now(), Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}
			rec.State = state.Computing
			if c.keeps {
				a := attemptOf(control(w.Runner, run, submission.Submission{Job: controltest.Movable()}), &drive{}, spec.Site{}, nil, rec)
				a.at.lease = &controltest.Lease{Site: w.sites["a"], Owner: owner}
				if err := a.keeping.keep(t.Context(), &protocol.Result{}); err != nil {
					t.Fatal(err)
				}
			}
			c.leave(t, w, &rec)
			run.State = state.Running
			if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), rec, false)); err != nil {
				t.Fatal(err)
			}
			got := w.drive(t, run, nil)
			attempts, err := w.Store.Attempts(t.Context(), run.ID)
			if err != nil || got.State != state.Succeeded || len(attempts) != 2 || attempts[1].Site != "b" {
				t.Errorf("got %+v after %+v, %v", got, attempts, err)
			}
			w.nothingHeld(t)
		})
	}
}

// TestDamagedCheckpoints: the newest whole one is used, and two are kept.
func TestDamagedCheckpoints(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submitJob(t, controltest.Movable())
	var a *attempt
	for n := 1; n <= 3; n++ {
		owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: n}
		leaveVolume(t, w.sites["a"].Dir, string(rune('0'+n)))
		a = attemptOf(control(w.Runner, run, submission.Submission{Job: controltest.Movable()}), &drive{}, spec.Site{}, nil, state.Attempt{Run: run.ID, N: n})
		a.at.lease = &controltest.Lease{Site: w.sites["a"], Owner: owner}
		if err := a.keeping.keep(t.Context(), &protocol.Result{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := a.c.Kept().OpenDir(a.c.Kept().Dir(run.ID)).List(t.Context())
	if err != nil || len(list) != 2 || list[0].Attempt != 2 {
		t.Fatalf("kept %v, %v", list, err)
	}
	for whole := 2; ; whole-- {
		want := ""
		if whole > 0 {
			want = list[whole-1].Dir
		}
		w.sites["a"].Staged = driver.Transfer{}
		if is, err := a.staging.restore(t.Context(), a.at.lease.Hosts()[0]); err != nil || is != (whole > 0) || whole > 0 && w.sites["a"].Staged.Local != want {
			t.Errorf("with %d undamaged: %v, %q, %v", whole, is, w.sites["a"].Staged.Local, err)
		}
		if whole == 0 {
			break
		}
		if err := os.WriteFile(filepath.Join(want, "state"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list := controltest.EventsOf(t, w.Store, run.ID, event.KindCheckpointDamaged); len(list) == 0 || list[0].Fields != (event.CheckpointDamaged{Of: 3, Next: 2}) {
		t.Errorf("history %+v", list)
	}
}

// TestACopyStaysWhileItIsBroughtHome, where its head can have it stay; one that has made
// way for others is passed over.
func TestACopyStaysWhileItIsBroughtHome(t *testing.T) {
	for name, c := range map[string]struct {
		hold error
		kept int
	}{
		"it does":               {nil, 1},
		"by a head before that": {&core.Error{Kind: core.Unsupported}, 1},
		"it has made way":       {&core.Error{Kind: core.NotFound}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				a := w.sites["a"]
				a.Head = controltest.Succeeding()
				a.Head.HoldError, a.Head.Lasts = c.hold, time.Second
				a.Head.Events = slices.Insert(a.Head.Events, len(a.Head.Events)-1, protocol.Event{Phase: core.PhaseRun, Rank: -1, Snapshot: 1})
				testkit.WriteFiles(t, protocol.SnapshotDir(a.Dir, 1), map[string]string{"state": "1"})
				job := controltest.Movable()
				job.Checkpoint.Every = time.Second
				run := w.drive(t, w.submitJob(t, job), nil)
				if list, err := w.Checkpoints(t.Context(), run.ID); err != nil || len(list) != c.kept {
					t.Errorf("%d are kept, %v", len(list), err)
				}
				w.Store.Close()
			})
		})
	}
}
