package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

var errSilent = &core.Error{Kind: core.Transient, Err: errors.New("no route to host")}

// dying is a world whose site a stops answering when the output of the first
// attempt is fetched there: after its checkpoint has come home.
func dying(t *testing.T) (*world, state.Run) {
	t.Helper()
	w := newWorld(t, "a", "b")
	a := w.sites["a"]
	a.Head = saving()
	leaveVolume(t, a.Dir, "1")
	var once sync.Once
	a.OnFetch = func(remote string) {
		if remote == protocol.OutputPath(a.Dir) {
			once.Do(func() { a.Silence(errSilent) })
		}
	}
	return w, w.submitJob(t, controltest.Movable())
}

// TestASiteThatDiesAfterTheCheckpointIsAtHome is waited for, and then given up:
// the run continues elsewhere, and what is left there is released when it answers.
func TestASiteThatDiesAfterTheCheckpointIsAtHome(t *testing.T) {
	for _, c := range []struct {
		name string
		dies time.Duration // the first controller; 0: it does not
		back time.Duration // the site answers again
		site string        // at which the outputs are fetched, or ""
	}{
		{"for good", 0, 0, "b"},
		{"with a controller that dies meanwhile", time.Minute, 0, "b"},
		{"with one that dies and a site that comes back in time", time.Minute, 3 * time.Minute, "a"},
		{"for a moment", 0, 3 * time.Minute, "a"},
		{"until the run continues elsewhere", 0, 6 * time.Minute, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, run := dying(t)
				a := w.sites["a"]
				w.sites["b"].Head.Lasts = 10 * time.Minute
				begun := time.Now()
				if c.back > 0 {
					time.AfterFunc(c.back, func() { a.Silence(nil) })
				}
				if c.dies > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), c.dies)
					defer cancel()
					if _, err := w.Drive(ctx, run.ID, nil); err == nil {
						t.Fatal("it did not wait for the site")
					}
				}
				got := w.drive(t, run, nil)
				attempts, err := w.Store.Attempts(t.Context(), run.ID)
				text := history(t, w, run.ID)
				if err != nil || got.State != state.Succeeded || len(attempts) != 2 || attempts[1].Site != "b" || !attempts[0].Verdict.Goes() {
					t.Fatalf("got %+v after %+v, %v\n%s", got, attempts, err, text)
				}
				if took := time.Since(begun); took > c.dies+unreachableLimit+11*time.Minute {
					t.Errorf("it took %v", took)
				}
				if !happened(t, w, run.ID, event.Unneeded{Site: "a"}) {
					t.Errorf("nobody was told: %s", text)
				}
				if gaveUp(t, w, attempts[0]) != (c.site == "b") || happened(t, w, run.ID, event.SiteLost{}) != (c.site == "b") {
					t.Errorf("attempt %+v\n%s", attempts[0], text)
				}
				if c.back == 0 { // it comes back when the run is over
					if len(a.Held) != 1 || attempts[0].Released() {
						t.Errorf("held %v, %+v", a.Held, attempts[0])
					}
					a.Silence(nil)
					w.drive(t, run, nil)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestASiteThatDiesWithTheCheckpoint is waited for: only there it is.
func TestASiteThatDiesWithTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run := dying(t)
		a := w.sites["a"]
		a.OnFetch = func(string) { a.Silence(errSilent) }
		for range 3 {
			if got, err := w.Drive(t.Context(), run.ID, nil); err == nil {
				t.Fatalf("it continued without its checkpoint: %+v", got)
			}
			time.Sleep(2 * unreachableLimit) // in virtual time, as all here
		}
		if !happened(t, w, run.ID, event.Unreachable{Wait: event.WaitCheckpoint}) {
			t.Errorf("nobody was told: %s", history(t, w, run.ID))
		}
		a.OnFetch = nil
		a.Silence(nil)
		if got := w.drive(t, run, nil); got.State != state.Succeeded {
			t.Errorf("got %+v", got)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestASiteThatDiesAndACheckpointThatRots: what is at home is damaged by the time
// that the run would continue from it.
func TestASiteThatDiesAndACheckpointThatRots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run := dying(t)
		time.AfterFunc(time.Minute, func() {
			if err := os.WriteFile(filepath.Join(w.Kept().Dir(run.ID), "1", "volume", "state"), []byte("rot"), 0o600); err != nil {
				t.Error(err)
			}
		})
		if got, err := w.Drive(t.Context(), run.ID, nil); !core.IsKind(err, core.Transient) || len(w.attempts(t, run)) != 1 {
			t.Fatalf("got %+v, %v", got, err)
		}
		w.sites["a"].Silence(nil)
		if got := w.drive(t, run, nil); got.State != state.Succeeded {
			t.Errorf("got %+v", got)
		}
		if raw, err := os.ReadFile(filepath.Join(w.Kept().Dir(run.ID), "1", "volume", "state")); err != nil || string(raw) != "1" {
			t.Errorf("at home there is %q, %v", raw, err)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestASiteThatDiesBeforeAnotherControllerComes: whether the run continues without
// it depends on whether it may still compute there, and on what is there.
func TestASiteThatDiesBeforeAnotherControllerComes(t *testing.T) {
	failed := 3
	for _, c := range []struct {
		name  string
		set   func(a *state.Attempt)
		stop  bool
		takes time.Duration
		state state.RunState // "": it waits
		event event.Fields
	}{
		{"nothing was launched", func(*state.Attempt) {}, false, time.Second, state.Succeeded, event.ReleaseFailed{Safe: event.SafeIdle}},
		{"nothing was launched, and it is stopped", func(*state.Attempt) {}, true, time.Second, state.Stopped, event.ReleaseFailed{Safe: event.SafeIdle}},
		{"only the intent", func(a *state.Attempt) { a.Lease = nil }, false, time.Second, state.Succeeded, event.ReleaseFailed{Safe: event.SafeIdle}},
		{"all was collected, and the run continues", func(a *state.Attempt) {
			a.State, a.Result, a.Verdict = state.Releasing, state.Checkpointed, state.Continues
		}, false, time.Second, state.Succeeded, event.ReleaseFailed{Safe: event.SafeIdle}},
		{"all was fetched, and it may still run", func(a *state.Attempt) {
			a.State, a.Result, a.Verdict = state.Releasing, state.Unreported, state.ContinuesLost
		}, false, releaseLimit + 10*time.Second, state.Succeeded, event.ReleaseDeferred{Limit: event.Seconds(releaseLimit)}},
		{"all was collected, and the run is over", func(a *state.Attempt) {
			a.State, a.Result, a.Verdict, a.ExitCode = state.Releasing, state.Exited, state.Completed, new(int)
		}, false, time.Second, state.Succeeded, event.ReleaseFailed{Safe: event.SafeIdle}},
		{"it may run there", func(a *state.Attempt) { a.State = state.Computing }, false, time.Second, "", event.Unreachable{Wait: event.WaitTask}},
		{"it has failed there", func(a *state.Attempt) { a.State, a.Result, a.ExitCode = state.Collecting, state.Exited, &failed }, false, time.Second, "", event.Unreachable{Wait: event.WaitOutputs}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				run := w.submitJob(t, controltest.Movable())
				owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
				a := w.sites["a"]
				a.Held[owner] = true
				a.Silence(errSilent)
				rec := state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "fake", Started: time.Now(), Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}
				c.set(&rec)
				run.State = state.Running
				if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), rec, false)); err != nil {
					t.Fatal(err)
				}
				if c.stop {
					if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
						t.Fatal(err)
					}
				}
				begun := time.Now()
				got, err := w.Drive(t.Context(), run.ID, nil)
				if took := time.Since(begun); took > c.takes {
					t.Errorf("it took %v", took)
				}
				if (err != nil) != (c.state == "") || err == nil && got.State != c.state {
					t.Errorf("got %+v, %v", got, err)
				}
				if !happened(t, w, run.ID, c.event) {
					t.Errorf("its history: %s", history(t, w, run.ID))
				}
				if attempts, err := w.Store.Attempts(t.Context(), run.ID); err != nil || c.state == "" && len(attempts) != 1 {
					t.Errorf("attempts %+v, %v", attempts, err)
				}
				w.Store.Close()
			})
		})
	}
}

// TestWhatIsLeftBehindIsReleasedWhileTheRunGoesOn: by its controller, and by a
// sweep, which touches nothing that is in use.
func TestWhatIsLeftBehindIsReleasedWhileTheRunGoesOn(t *testing.T) {
	for _, by := range []string{"controller", "sweep"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, run := dying(t)
				a, b := w.sites["a"], w.sites["b"]
				b.Head.Lasts = 10 * time.Hour
				back := 3 * time.Hour
				time.AfterFunc(back, func() { a.Silence(nil) })
				time.AfterFunc(back+longestRest+time.Minute, func() {
					a.Mu.Lock()
					defer a.Mu.Unlock()
					if len(a.Held) > 0 {
						t.Error("it is still held")
					}
				})
				if by == "sweep" {
					time.AfterFunc(back+time.Second, func() {
						sites := []spec.Site{{Name: "a"}, {Name: "b"}}
						swept, err := w.Garbage().Sweep(t.Context(), sites, nil, gc.Sweeping{})
						if err != nil || len(swept) != 1 || swept[0].Site != "a" {
							t.Errorf("swept %+v, %v", swept, err)
						}
					})
				}
				if got := w.drive(t, run, nil); got.State != state.Succeeded {
					t.Errorf("got %+v", got)
				}
				attempts, err := w.Store.Attempts(t.Context(), run.ID)
				if err != nil || len(attempts) != 2 || !attempts[0].Released() || !attempts[1].Released() {
					t.Errorf("attempts %+v, %v", attempts, err)
				}
				if !happened(t, w, run.ID, event.ReleasedLate{Site: "a"}) {
					t.Errorf("its history: %s", history(t, w, run.ID))
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestWhatADeadControllerHasLeftIsReleasedAtOnce: the run ends soon after the next one begins.
func TestWhatADeadControllerHasLeftIsReleasedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run := dying(t)
		w.sites["b"].Head.Lasts = 10 * time.Hour
		if _, err := w.driveFor(t, run, 3*time.Hour); err == nil {
			t.Fatal("the first controller ended the run")
		}
		w.sites["a"].Silence(nil)
		w.sites["b"].Head.Lasts = firstRest / 3
		if got := w.drive(t, run, nil); got.State != state.Succeeded {
			t.Errorf("got %+v", got)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestADeadSiteAfterManyLostAttempts: a run that was suspended when its last
// site died is resumed, and has not failed.
func TestADeadSiteAfterManyLostAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		a := w.sites["a"]
		a.Head = saving()
		leaveVolume(t, a.Dir, "1")
		a.OnAcquire = func() error {
			if len(a.Head.Events) == 3 && a.Head.Events[2].Result.Continue {
				if attempts, _ := filepath.Glob(filepath.Join(filepath.Dir(w.Store.RunDir("x")), "*", "checkpoints", "1")); len(attempts) > 0 {
					a.Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
				}
			}
			return nil
		}
		run := w.submitJob(t, controltest.Movable())
		a.OnFetch = func(string) {
			if list, _ := w.Store.Attempts(t.Context(), run.ID); len(list) == placement.MostLost+2 {
				a.Mu.Lock()
				defer a.Mu.Unlock()
				a.ReleaseErrors = []error{errSilent, errSilent, errSilent}
			}
		}
		got := w.drive(t, run, nil)
		if got.State != state.Suspended || len(a.Held) != 1 {
			t.Fatalf("got %+v, held %v", got, a.Held)
		}
		resumed, err := w.Resume(t.Context(), got, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.Facts = driver.Facts{Usable: true}
		a.OnAcquire, a.Head = nil, controltest.Succeeding()
		if got := w.drive(t, resumed, nil); got.State != state.Succeeded {
			t.Errorf("got %+v", got)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestASiteThatDiesAfterAHostWasLost: an attempt that has lost a host has ended,
// too, and the run continues from the checkpoint before it.
func TestASiteThatDiesAfterAHostWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run := dying(t)
		a, b := w.sites["a"], w.sites["b"]
		a.OnFetch = nil
		b.Head = controltest.Events(protocol.Result{Kind: core.Lost.String(), Message: "host f1 was lost"})
		b.OnFetch = func(remote string) {
			if remote == protocol.OutputPath(b.Dir) {
				b.Silence(errSilent)
			}
		}
		a.OnAcquire = func() error {
			if len(b.Held) > 0 {
				a.Head = controltest.Succeeding()
			}
			return nil
		}
		got := w.drive(t, run, nil)
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || got.State != state.Succeeded || len(attempts) != 3 || attempts[2].Site != "a" || !gaveUp(t, w, attempts[1]) {
			t.Errorf("got %+v after %+v, %v\n%s", got, attempts, err, history(t, w, run.ID))
		}
		b.Silence(nil)
		w.drive(t, run, nil)
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestADeadSiteIsNotWaitedForAnewByEachController: a run that no site can take is
// suspended after its time, however many controllers die in it.
func TestADeadSiteIsNotWaitedForAnewByEachController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run := dying(t)
		w.sites["b"].Facts = driver.Facts{Reason: "closed", Passing: true}
		begun := time.Now()
		for range 2 * int(defaultWait/time.Hour) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			got, err := w.Drive(ctx, run.ID, nil)
			cancel()
			if err == nil {
				if took := time.Since(begun); got.State != state.Suspended || took < defaultWait || took > defaultWait+time.Hour {
					t.Errorf("after %v: %+v", took, got)
				}
				w.Store.Close()
				return
			}
		}
		t.Errorf("no end after %v", time.Since(begun))
		w.Store.Close()
	})
}

// TestAStoreIsNotAskedAtEachLook at a site that does not answer.
func TestAStoreIsNotAskedAtEachLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		run, job, asked := w.submit(t), controltest.Movable(), 0
		job.Store = t.TempDir()
		w.OpenStore = func(string) (driver.Store, error) {
			return countedPlace{dirstore.Store(job.Store), &asked}, nil
		}
		d := &drive{controlled: control(w.Runner, run, submission.Submission{Job: job})}
		store, err := d.checkpoints().Store()
		if err == nil {
			err = d.checkpoints().Note(t.Context(), store)
		}
		own := filepath.Join(job.Store, driver.RunName(w.Store.User(), run.ID), "1")
		if err := errors.Join(err, os.Mkdir(own, 0o700), os.WriteFile(filepath.Join(own, "manifest.json"), []byte(`{"attempt":1}`), 0o600)); err != nil {
			t.Fatal(err)
		}
		a := attemptOf(d.controlled, d, spec.Site{}, nil, state.Attempt{Run: run.ID, N: 1, State: state.Ended, Result: state.Checkpointed})
		for range int(unreachableLimit / time.Second) {
			if is, err := a.reach.dispensable(t.Context()); err != nil || !is {
				t.Fatal(is, err)
			}
			time.Sleep(time.Second) // in virtual time
		}
		if most := int(unreachableLimit / declaredLostLook); asked > most {
			t.Errorf("the store was asked %d times, want %d at most", asked, most)
		}
		w.Store.Close()
	})
}

// countedPlace counts how often its stores are listed.
type countedPlace struct {
	dirstore.Store
	asked *int
}

func (p countedPlace) Run(name string) driver.Checkpoints {
	return countedStore{p.Store.Run(name), p.asked}
}

type countedStore struct {
	driver.Checkpoints
	asked *int
}

func (s countedStore) List(ctx context.Context) ([]driver.Checkpoint, error) {
	*s.asked++
	return s.Checkpoints.List(ctx)
}
