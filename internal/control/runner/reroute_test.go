package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/request"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestARunThatWaitsIsSentElsewhere: in a queue, whether or not its site would start it
// by itself, while no site can take it, and with another controller.
func TestARunThatWaitsIsSentElsewhere(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(w *world)
		dies bool
	}{
		{"in a queue", func(w *world) {
			w.sites["a"].Ready = func() (driver.Waiting, error) { return driver.Waiting{Reason: "others are before us"}, nil }
		}, false},
		{"in a queue that needs no controller", func(w *world) { controltest.StartsAlone(w.sites["a"], 90*time.Hour, controltest.Always) }, false},
		{"in a queue that needs no controller, which dies", func(w *world) { controltest.StartsAlone(w.sites["a"], 90*time.Hour, controltest.Always) }, true},
		{"in no queue", func(w *world) { w.sites["a"].AcquireError = &core.Error{Kind: core.Transient, Err: errors.New("full")} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				c.set(w)
				w.sites["a"].Starts = time.Now() // so that it would be the first by the job's own order
				w.sites["b"] = &controltest.Site{Dir: t.TempDir(), Facts: driver.Facts{Usable: true}, Held: map[core.Owner]bool{}, Head: controltest.Succeeding()}
				run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Wait: 90 * time.Hour, Order: spec.OrderSoonest})
				begun, sent := time.Now(), 5*time.Hour+5*time.Minute // in the midst of a rest
				time.AfterFunc(sent, func() {
					now, err := w.Store.Run(context.Background(), run.ID)
					if err == nil {
						err = request.Requests{Store: w.Store}.SendElsewhere(context.Background(), now, controltest.Sites("b"))
					}
					if err != nil {
						t.Errorf("%s: %v", now.State, err)
					}
				})
				if c.dies {
					if _, err := w.driveFor(t, run, 4*time.Hour); err == nil {
						t.Error("it did not wait")
					}
					time.Sleep(2 * time.Hour) // it is sent with no controller there
				}
				run = w.drive(t, run, nil)
				attempts := w.attempts(t, run)
				atMost := sent + 2*time.Minute
				if c.dies {
					atMost += time.Hour
				}
				if took := time.Since(begun); run.State != state.Succeeded || attempts[len(attempts)-1].Site != "b" || took > atMost || took < sent {
					t.Errorf("%s after %v: %s\n%s", run.State, took, run.Message, history(t, w, run.ID))
				}
				if now, err := w.Store.Requests().Open(t.Context(), run.ID, state.RequestMove); err != nil || now != nil || !happened(t, w, run.ID, event.MoveRequested{Sites: []string{"b"}}) {
					t.Errorf("%v, request %v\n%s", err, now, history(t, w, run.ID))
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestARunThatIsSentElsewhereTooLate has begun where it waited, and stays.
func TestARunThatIsSentElsewhereTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		controltest.StartsAlone(w.sites["a"], 2*time.Hour, controltest.Always)
		run := w.submit(t)
		if _, err := w.driveFor(t, run, time.Hour); err == nil {
			t.Error("it did not wait")
		}
		now, err := w.Store.Run(t.Context(), run.ID)
		if err == nil {
			time.Sleep(2 * time.Hour) // it begins, with no controller there
			err = request.Requests{Store: w.Store}.SendElsewhere(t.Context(), now, controltest.Sites("b"))
		}
		if err != nil {
			t.Error(err)
		}
		run = w.drive(t, run, nil)
		if attempts := w.attempts(t, run); run.State != state.Succeeded || len(attempts) != 1 || attempts[0].Site != "a" {
			t.Errorf("%s: %s, %+v", run.State, run.Message, attempts)
		}
		w.Store.Close()
	})
}

// TestOnlyARunThatWaitsIsSentElsewhere, and not to where it waits.
func TestOnlyARunThatWaitsIsSentElsewhere(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submit(t)
	if err := w.Store.PutAttempt(t.Context(), state.Attempt{Run: run.ID, N: 1, Site: "a", Started: time.Now()}, false); err != nil {
		t.Fatal(err)
	}
	var all testkit.ErrorList
	refused := func(when string) {
		t.Helper()
		err := request.Requests{Store: w.Store}.SendElsewhere(t.Context(), run, controltest.Sites("a", "b"))
		if !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%s: got %v, remedy %q", when, err, core.Remedy(err))
		}
		all.Add(when, err)
	}
	refused("it waits for one of the sites")
	if err := w.Store.PutAttempt(t.Context(), state.Attempt{Run: run.ID, N: 1, Site: "a", Started: time.Now(), State: state.Computing}, false); err != nil {
		t.Fatal(err)
	}
	refused("it computes")
	run.State = state.Failed
	refused("it is over")
	testkit.Golden(t, "move", strings.ReplaceAll(all.String(), run.ID, "RUN"))
}

// TestAMoveLeavesTheSite also where that is the first by the job's own order, which counts
// again afterwards.
func TestAMoveLeavesTheSite(t *testing.T) {
	for _, order := range []string{spec.OrderListed, spec.OrderCheapest, spec.OrderSoonest} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				job := controltest.Movable()
				job.Order = order
				run := w.submitJob(t, job)
				for name, site := range w.sites {
					leaveVolume(t, site.Dir, name)
					site.Head, site.Starts = saving(), time.Now()
				}
				asked := false
				w.sites["a"].OnAcquire = func() error { // which its attempt knows nothing of
					if asked {
						return nil
					}
					return request.Requests{Store: w.Store}.Move(context.Background(), run, 1, nil, func() error { asked = true; return nil })
				}
				w.sites["b"].OnAcquire = func() error { w.sites["a"].Head = controltest.Succeeding(); return nil }
				run = w.drive(t, run, nil)
				var sites []string
				for _, a := range w.attempts(t, run) {
					sites = append(sites, a.Site)
				}
				if run.State != state.Succeeded || !asked || !slices.Equal(sites, []string{"a", "b", "a"}) {
					t.Errorf("%s on %v\n%s", run.State, sites, history(t, w, run.ID))
				}
				if raw, err := w.Store.Requests().Open(t.Context(), run.ID, state.RequestMove); err != nil || raw != nil {
					t.Errorf("its user's word is still %v, %v", raw, err)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestARequestMeansOneAttempt: a move of an attempt that ran never acts on the next one,
// and one of an attempt that only waited acts on the run.
func TestARequestMeansOneAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		attempt  state.Attempt
		attempts int
		acts     bool
		result   state.RequestResult
	}{
		"the present attempt": {state.Attempt{State: state.Computing}, 1, true, state.RequestOpen},
		"one that ran":        {state.Attempt{State: state.Closed, Result: state.Exited}, 2, false, state.RequestOvertaken},
		"one that waited":     {state.Attempt{State: state.Closed, Verdict: state.Skipped}, 2, true, state.RequestOpen},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			run := w.submit(t)
			c.attempt.Run, c.attempt.N, c.attempt.Started = run.ID, 1, time.Now()
			if err := w.Store.PutAttempt(t.Context(), c.attempt, false); err != nil {
				t.Fatal(err)
			}
			if _, err := (request.Requests{Store: w.Store}).Ask(t.Context(), run.ID, []state.Attempt{c.attempt}, state.RequestMove, []spec.Site{{Name: "rack"}}); err != nil {
				t.Fatal(err)
			}
			d := &drive{controlled: control(w.Runner, run, submission.Submission{}), attempts: c.attempts}
			if sites, sent, err := (moveRequests{d}).sites(t.Context()); err != nil || sent != c.acts || c.acts && sites[0].Name != "rack" {
				t.Errorf("sent %t to %v, %v", sent, sites, err)
			}
			if list, err := w.Store.Requests().Of(t.Context(), run.ID); err != nil || len(list) != 1 || list[0].Result != c.result {
				t.Errorf("requests %+v, %v", list, err)
			}
		})
	}
}
