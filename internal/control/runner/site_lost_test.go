package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/request"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// vanishing is a world whose site a falls silent for good after ten minutes, while
// the job runs there: with a slot or without, and with a checkpoint at home or
// without.
func vanishing(t *testing.T, slot time.Duration, kept bool) (*world, state.Run) {
	t.Helper()
	w := newWorld(t, "a", "b")
	booted := time.Now()
	w.clock = func() state.Moment { return state.Moment{Boot: "first", Up: time.Since(booted)} }
	a := w.sites["a"]
	a.Head.Lasts, a.Head.Broken = 10*time.Minute, 1
	if kept {
		snapshot := protocol.SnapshotDir(a.Dir, 1)
		if err := errors.Join(os.MkdirAll(snapshot, 0o700), os.WriteFile(filepath.Join(snapshot, "state"), []byte("1"), 0o600)); err != nil {
			t.Fatal(err)
		}
		a.Head.Events = append([]protocol.Event{{Phase: core.PhaseRun, Snapshot: 1}}, a.Head.Events...)
	}
	time.AfterFunc(9*time.Minute, func() { a.Silence(errSilent) })
	job := controltest.Movable()
	job.Outputs = []spec.Output{{From: "/work/log", To: t.TempDir(), Optional: true}}
	run, lock, err := submission.Submit(t.Context(), w.Store, submission.Submission{Job: job, Sites: []spec.Site{{Name: "a", Provider: "fake", Slot: slot}, {Name: "b", Provider: "fake"}}})
	if err == nil { // as a stream that broke leaves it
		err = errors.Join(os.WriteFile(arrivedHalf(t, run), nil, 0o600), os.WriteFile(others(t, run), nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Unlock() })
	return w, run
}

// arrivedHalf is what has come of a vanishing run's output.
func arrivedHalf(t *testing.T, run state.Run) string {
	t.Helper()
	s, err := submission.Of(run)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(s.Job.Outputs[0].To, "..bee-arriving-"+run.ID+"-0-1234.bee-partial")
}

// others is what has come of an output of another run.
func others(t *testing.T, run state.Run) string {
	return strings.Replace(arrivedHalf(t, run), run.ID, "another-run", 1)
}

// driveFor has a controller carry the run on until it is done, or dies.
func (w *world) driveFor(t *testing.T, run state.Run, d time.Duration) (state.Run, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return w.Drive(ctx, run.ID, nil)
}

// attempts gives those of a run.
func (w *world) attempts(t *testing.T, run state.Run) []state.Attempt {
	t.Helper()
	list, err := w.Store.Attempts(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestASiteThatVanishesInMidRun holds its run until its slot is certainly over and
// a checkpoint is at home; else its user has to decide. Nothing computes twice before.
func TestASiteThatVanishesInMidRun(t *testing.T) {
	slotEnd := time.Date(2000, time.January, 1, 0, 40, 0, 0, time.UTC) // time begins so in each case
	for _, c := range []struct {
		name  string
		slot  time.Duration
		kept  bool
		lives time.Duration // of each controller; 0: the first stays
		boots bool          // the controller's machine is switched off meanwhile
		after time.Duration // the run continues, by itself; 0: never
		event event.Fields
	}{
		{"in a slot", 40 * time.Minute, true, 0, false, 45 * time.Minute, event.Unneeded{Site: "a"}},
		{"in a slot, with controllers that die", 40 * time.Minute, true, 17 * time.Minute, false, 45 * time.Minute, event.Unreachable{Wait: event.WaitTask, Until: slotEnd}},
		{"in a slot, with a machine that is switched off", 40 * time.Minute, true, 25 * time.Minute, true, 70 * time.Minute, event.Unreachable{Wait: event.WaitTask, Until: slotEnd}},
		{"in a slot, without a checkpoint", 40 * time.Minute, false, 0, false, 0, event.Unreachable{Wait: event.WaitResult}},
		{"without a slot", 0, true, 0, false, 0, event.Unreachable{Wait: event.WaitTask}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, run := vanishing(t, c.slot, c.kept)
				began := time.Now()
				w.sites["b"].OnAcquire = func() error {
					if at := time.Since(began); c.after == 0 || at < c.after || at > c.after+2*time.Minute {
						t.Errorf("it continues after %v", at)
					}
					return nil
				}
				var got state.Run
				err := errors.New("it has not begun")
				for n := 1; err != nil && time.Since(began) < 5*time.Hour; n++ {
					lives := 5 * time.Hour
					if c.lives > 0 && n < 3 {
						lives = c.lives
					}
					got, err = w.driveFor(t, run, lives)
					if c.boots && n == 1 {
						booted := time.Now()
						w.clock = func() state.Moment { return state.Moment{Boot: "second", Up: 90*24*time.Hour + time.Since(booted)} }
					}
					if err != nil && n > 2 {
						time.Sleep(time.Minute) // until another comes
					}
				}
				if !happened(t, w, run.ID, c.event) {
					t.Errorf("its history: %s", history(t, w, run.ID))
				}
				if list := w.attempts(t, run); c.after == 0 && (err == nil || len(list) != 1) || c.after > 0 && (got.State != state.Succeeded || len(list) != 2 || !gaveUp(t, w, list[0]) || list[0].Released()) {
					t.Errorf("got %+v, %v, after %+v", got, err, list)
				}
				if c.after > 0 {
					w.sites["a"].Silence(nil)
					w.drive(t, run, nil)
					w.nothingHeld(t)
				}
				w.Store.Close()
			})
		})
	}
}

// TestHostsThatAreStopped have not answered for as long as that takes, while their site has. A checkpoint is whole
// at home then.
func TestHostsThatAreStopped(t *testing.T) {
	for _, c := range []struct {
		name string
		kept bool
		rots bool // the copy at home is damaged
		// offline is for how long this machine reaches nothing, from the tenth minute on, and cut for how long after
		// that the hosts do not answer.
		offline, cut time.Duration
		stopped      time.Duration // 0: never
	}{
		{"for good", true, false, 0, 5 * time.Hour, 9*time.Minute + fenceLimit},
		{"without a checkpoint", false, false, 0, 5 * time.Hour, 0},
		{"with a damaged checkpoint", true, true, 0, 5 * time.Hour, 0},
		{"for a moment", true, false, 0, 14 * time.Minute, 0},
		{"for a moment, after an hour offline", true, false, time.Hour, 5 * time.Minute, 0},
		{"for good, after an hour offline", true, false, time.Hour, 5 * time.Hour, 69*time.Minute + fenceLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, run := vanishing(t, 0, c.kept)
				began, a, stopped := time.Now(), w.sites["a"], false
				a.Fence = func() error {
					if at := time.Since(began); c.stopped == 0 || at < c.stopped || at > c.stopped+2*time.Minute {
						t.Errorf("the hosts are stopped after %v", at)
					}
					stopped = true
					return nil
				}
				time.AfterFunc(9*time.Minute+c.offline+time.Nanosecond, func() { a.CutHosts(errSilent) })
				time.AfterFunc(9*time.Minute+c.offline+c.cut, func() { a.CutHosts(nil) })
				if c.rots {
					time.AfterFunc(8*time.Minute, func() {
						n := 0
						err := filepath.WalkDir(w.Kept().Dir(run.ID), func(path string, e os.DirEntry, err error) error {
							if err == nil && e.Name() == "state" {
								n++
								err = os.WriteFile(path, []byte("rot"), 0o600)
							}
							return err
						})
						if err != nil || n != 1 {
							t.Errorf("damaged are %d files, %v", n, err)
						}
					})
				}
				got, err := w.driveFor(t, run, 4*time.Hour)
				ends := c.stopped > 0 || c.cut < 4*time.Hour
				if stopped != (c.stopped > 0) || happened(t, w, run.ID, event.Fenced{Site: "a"}) != stopped || ends && (err != nil || got.State != state.Succeeded) || !ends && err == nil {
					t.Errorf("got %+v, %v, after %+v\n%s", got, err, w.attempts(t, run), history(t, w, run.ID))
				}
				if list := w.attempts(t, run); stopped && (len(list) != 2 || !gaveUp(t, w, list[0]) || !list[0].Released()) || !stopped && len(list) != 1 {
					t.Errorf("attempts are %+v", list)
				}
				w.Store.Close()
			})
		})
	}
}

// TestWhoseSiteIsHeldForLost: the run ends, or continues elsewhere, as its user asks,
// and what is left there is released once the site answers.
func TestWhoseSiteIsHeldForLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		kept  bool
		stop  bool
		dies  bool // the controller, before its user says so
		sites []spec.Site
		state state.RunState
		on    string
	}{
		{"it continues from its checkpoint", true, false, false, nil, state.Succeeded, "b"},
		{"and the controller has died", true, false, true, nil, state.Succeeded, "b"},
		{"it starts again", false, false, false, nil, state.Succeeded, "b"},
		{"on a site of its user's choice", true, false, false, []spec.Site{{Name: "c", Provider: "fake"}}, state.Succeeded, "c"},
		{"it ends", true, true, false, nil, state.Stopped, ""},
		{"it ends, and the controller has died", true, true, true, nil, state.Stopped, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, run := vanishing(t, 0, c.kept)
				w.sites["c"] = &controltest.Site{Dir: t.TempDir(), Facts: w.sites["b"].Facts, Held: map[core.Owner]bool{}, Head: controltest.Succeeding()}
				w.sites["b"].Head.Lasts, w.sites["c"].Head.Lasts = time.Hour, time.Hour
				lives, said := 10*time.Hour, make(chan struct{})
				if c.dies {
					lives = 15 * time.Minute
				}
				time.AfterFunc(20*time.Minute, func() {
					defer close(said)
					if c.stop {
						if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
							t.Error(err)
						}
					}
					declareLost(t, w, run, c.sites)
				})
				got, err := w.driveFor(t, run, lives)
				if <-said; c.dies {
					if err == nil {
						t.Fatalf("it has not waited: %+v", got)
					}
					got, err = w.driveFor(t, run, 10*time.Hour)
				}
				list := w.attempts(t, run)
				if err != nil || got.State != c.state || !gaveUp(t, w, list[0]) || list[0].Released() || len(list) != len(strings.Fields("a "+c.on)) || c.on != "" && list[1].Site != c.on {
					t.Errorf("got %+v, %v, after %+v\n%s", got, err, list, history(t, w, run.ID))
				}
				if c.on != "" && (list[1].From != "") != c.kept {
					t.Errorf("the attempt began with the checkpoint %q", list[1].From)
				}
				lost := controltest.EventsOf(t, w.Store, run.ID, event.KindSiteLost)
				if len(lost) != 1 || !happened(t, w, run.ID, event.SiteLost{Site: "a", Loss: event.Loss{Computes: true, Hosts: []string{"f0"}}}) || lost[0].Fields.(event.SiteLost).Loss.Checkpoint.IsZero() == c.kept {
					t.Errorf("the event of what is lost is %+v", lost)
				}
				if _, err := os.Lstat(arrivedHalf(t, run)); err == nil {
					t.Error("the half of an output stays that will not come")
				}
				if _, err := os.Lstat(others(t, run)); err != nil {
					t.Errorf("what has come of another run's: %v", err)
				}
				w.sites["a"].Silence(nil)
				time.Sleep(2 * gc.RetryRelease) // in virtual time, until what is left is tried again
				w.drive(t, run, nil)
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestAWordAboutOneAttemptIsNotAboutTheNext: a site that is declared lost is lost for the
// attempt that it had then.
func TestAWordAboutOneAttemptIsNotAboutTheNext(t *testing.T) {
	w, run := vanishing(t, 0, true)
	if _, err := w.Store.Requests().Ask(t.Context(), state.Request{Run: run.ID, Attempt: 1, Kind: state.RequestSiteLost}); err != nil {
		t.Fatal(err)
	}
	for n, want := range []bool{false, true, false} {
		rec := &record{of: control(w.Runner, run, submission.Submission{}), Attempt: state.Attempt{Run: run.ID, N: n}}
		if got := rec.declaredLost(t.Context()); got != want {
			t.Errorf("attempt %s: %v", strconv.Itoa(n), got)
		}
	}
}

// TestSetupIsRunAgainWhereItsWorkIsLost: it is skipped only where a checkpoint has
// what it did.
func TestSetupIsRunAgainWhereItsWorkIsLost(t *testing.T) {
	job := controltest.Movable()
	job.Run, job.Setup = &spec.Command{Shell: "run"}, &spec.Command{Shell: "setup"}
	for resumed, want := range map[bool]bool{true: false, false: true} {
		p, err := launch.MakePlan(&job, state.Run{SetupDone: true}, core.Image{}, nil, nil, resumed, placement.Margin{})
		if err != nil || (p.Setup != nil) != want {
			t.Errorf("resumed %v: setup %v, %v", resumed, p.Setup, err)
		}
	}
}

// gaveUp reports whether a run continued without what an attempt had on its site.
func gaveUp(t *testing.T, w *world, a state.Attempt) bool {
	t.Helper()
	without := []machinery.Event{machinery.GivenUp, machinery.SiteLost, machinery.TimeOver}
	return slices.ContainsFunc(controltest.EventsOf(t, w.Store, a.Run), func(e event.Event) bool {
		s, is := e.Fields.(event.AttemptState)
		return is && e.Attempt == a.N && slices.Contains(without, machinery.Event(s.On))
	})
}

// TestALostSiteKeepsAnEarlierMove: a run that its user sends to a site, and then declares
// the present one lost, continues on the site that it was sent to.
func TestALostSiteKeepsAnEarlierMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run := vanishing(t, 0, true)
		rack := spec.Site{Name: "rack", Provider: "fake"}
		w.sites["rack"] = w.sites["b"]
		time.AfterFunc(8*time.Minute, func() {
			if err := (request.Requests{Store: w.Store}).Move(context.Background(), run, 1, []spec.Site{rack}, func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
		time.AfterFunc(time.Hour, func() {
			declareLost(t, w, run, nil)
		})
		got, err := w.driveFor(t, run, 10*time.Hour)
		list := w.attempts(t, run)
		if err != nil || got.State != state.Succeeded || len(list) != 2 || list[1].Site != "rack" {
			t.Errorf("got %+v, %v, after %+v", got.State, err, list)
		}
		requests, err := w.Store.Requests().Of(t.Context(), run.ID)
		if err != nil || len(requests) != 2 {
			t.Fatalf("requests %+v, %v", requests, err)
		}
		for i, kind := range []state.RequestKind{state.RequestMove, state.RequestSiteLost} {
			if r := requests[i]; r.Kind != kind || r.Attempt != 1 || r.Result != state.RequestDone || r.Author == "" {
				t.Errorf("request %d: %+v", i, r)
			}
		}
		w.Store.Close()
	})
}

// declareLost asks, as the user of a run does, that it continue without the site of its
// present attempt.
func declareLost(t *testing.T, w *world, run state.Run, sites []spec.Site) {
	t.Helper()
	attempts, err := w.Store.Attempts(context.Background(), run.ID)
	if err == nil {
		_, err = request.Requests{Store: w.Store}.Ask(context.Background(), run.ID, attempts, state.RequestSiteLost, sites)
	}
	if err != nil {
		t.Error(err)
	}
}
