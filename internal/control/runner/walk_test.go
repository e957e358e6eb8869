package runner

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// history returns a run's history, a line for each event: its kind, and its fields in JSON.
func history(t *testing.T, w *world, run string) string {
	t.Helper()
	var lines []string
	for _, e := range controltest.EventsOf(t, w.Store, run) {
		if e.Is(event.KindAttemptState) {
			continue
		}
		lines = append(lines, event.Key(e.Fields))
	}
	return strings.Join(lines, "\n")
}

// happened reports whether the history of a run has an event of the kind of want that has
// the same values in all fields which want sets.
func happened(t *testing.T, w *world, run string, want event.Fields) bool {
	t.Helper()
	return slices.ContainsFunc(controltest.EventsOf(t, w.Store, run, want.Kind()), func(e event.Event) bool {
		return agrees(reflect.ValueOf(want), reflect.ValueOf(e.Fields))
	})
}

// agrees reports whether a value has what another one sets: fields of structures, and the
// first elements of lists.
func agrees(want, got reflect.Value) bool {
	switch {
	case want.Type() != got.Type():
		return false
	case want.IsZero():
		return true
	case want.Type() == reflect.TypeFor[time.Time]():
		return want.Interface().(time.Time).Equal(got.Interface().(time.Time))
	}
	n, part := 0, reflect.Value.Field
	switch want.Kind() {
	case reflect.Struct:
		n = want.NumField()
	case reflect.Slice:
		n, part = want.Len(), reflect.Value.Index
		if n > got.Len() {
			return false
		}
	case reflect.Pointer:
		return !got.IsNil() && agrees(want.Elem(), got.Elem())
	default:
		return want.Equal(got)
	}
	for i := range n {
		if !agrees(part(want, i), part(got, i)) {
			return false
		}
	}
	return true
}

// TestASiteIsAskedAgainLater: with a rest that grows, for as long as the job
// wants, unless no waiting can help.
func TestASiteIsAskedAgainLater(t *testing.T) {
	closed := &core.Error{Kind: core.Transient, Err: errors.New("maintenance")}
	for _, c := range []struct {
		name   string
		wait   time.Duration
		opens  time.Duration // when the site takes runs again
		err    error
		state  state.RunState
		atMost time.Duration
	}{
		{"it opens in time", 12 * time.Hour, 5 * time.Hour, closed, state.Succeeded, 5*time.Hour + longestRest},
		{"it opens too late", 2 * time.Hour, 5 * time.Hour, closed, state.Failed, 2*time.Hour + longestRest},
		{"nobody wants to wait", 0, time.Hour, closed, state.Failed, time.Second},
		{"waiting does not help", 12 * time.Hour, time.Hour, &core.Error{Kind: core.Unsupported, Err: errors.New("too small")}, state.Failed, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				begun, tries := time.Now(), 0
				w.sites["a"].OnAcquire = func() error {
					tries++
					if time.Since(begun) < c.opens {
						return c.err
					}
					return nil
				}
				run := w.drive(t, w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Wait: c.wait}), nil)
				if took := time.Since(begun); run.State != c.state || took > c.atMost {
					t.Errorf("%s after %v and %d tries: %s\n%s", run.State, took, tries, run.Message, history(t, w, run.ID))
				}
				if tries > 60 {
					t.Errorf("%d tries", tries)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

func TestStopWhileNoSiteTakesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.sites["a"].AcquireError = &core.Error{Kind: core.Transient, Err: errors.New("full")}
		stop := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(stop) })
		run := w.drive(t, w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Wait: 24 * time.Hour}), stop)
		if run.State != state.Stopped {
			t.Errorf("got %+v", run)
		}
		w.Store.Close()
	})
}

func TestOrderOfSites(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ order, want string }{{"", "a b c"}, {spec.OrderCheapest, "c a b"}, {spec.OrderSoonest, "b a c"}} {
		w := newWorld(t, "a", "b", "c")
		prices := map[string]float64{"a": 2, "b": 3, "c": 0.5}
		for _, s := range w.sites {
			s.HostCount = 2
		}
		w.sites["a"].Starts, w.sites["b"].Starts = now.Add(2*time.Hour), now.Add(time.Hour)
		sub := submission.Submission{Job: spec.Job{Name: "j", Nodes: 2, Volume: spec.Volume{Path: "/work"}, Order: c.order}}
		for _, n := range w.names {
			sub.Sites = append(sub.Sites, spec.Site{Name: n, Provider: "fake", Price: spec.Price{Amount: prices[n]}, Slot: time.Hour})
		}
		run, lock, err := submission.Submit(t.Context(), w.Store, sub)
		if err != nil {
			t.Fatal(err)
		}
		w.drive(t, run, nil)
		lock.Unlock()
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || len(attempts) != 1 || !strings.HasPrefix(c.want, attempts[0].Site) || attempts[0].Why == "" {
			t.Errorf("%s: attempts %+v, %v", c.order, attempts, err)
		}
	}
}

// A slot that is over before the job could begin is no use to it.
func TestASlotWithoutTimeToComputeIsPassedOver(t *testing.T) {
	w := newWorld(t, "a", "b")
	for name, job := range map[string]spec.Job{
		"no checkpoint": {Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}},
		"a long grace":  {Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Checkpoint: &spec.Checkpoint{Grace: 10 * time.Second}},
	} {
		sub := submission.Submission{Job: job, Sites: []spec.Site{{Name: "a", Provider: "fake", Slot: 20 * time.Second}, {Name: "b", Provider: "fake", Slot: time.Hour}}}
		run, lock, err := submission.Submit(t.Context(), w.Store, sub)
		if err != nil {
			t.Fatal(err)
		}
		run = w.drive(t, run, nil)
		lock.Unlock()
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || run.State != state.Succeeded || len(attempts) != 1 || attempts[0].Site != "b" {
			t.Errorf("%s: %s after attempts %+v, %v", name, run.State, attempts, err)
		}
		if !happened(t, w, run.ID, event.SiteSkipped{Site: "a", Cause: event.Cause{Kind: core.Unsupported.String()}}) {
			t.Errorf("%s: %s", name, history(t, w, run.ID))
		}
	}
}

// TestASiteThatIsTooSmallIsNotAsked: it is skipped for what the sites file has, though it does not
// answer.
func TestASiteThatIsTooSmallIsNotAsked(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.sites["a"].SiteError = &core.Error{Kind: core.Transient, Err: errors.New("no route")}
	sub := submission.Submission{
		Job:   spec.Job{Name: "j", Nodes: 1, Cores: 5, Volume: spec.Volume{Path: "/work"}},
		Sites: []spec.Site{{Name: "a", Provider: "ssh", Slots: 4}, {Name: "b", Provider: "fake"}},
	}
	run, lock, err := submission.Submit(t.Context(), w.Store, sub)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if run = w.drive(t, run, nil); run.State != state.Succeeded {
		t.Errorf("the run: %s, %s", run.State, run.Message)
	}
	if !happened(t, w, run.ID, event.SiteSkipped{Site: "a", Cause: event.Cause{Kind: core.Unsupported.String()}}) {
		t.Errorf("%s", history(t, w, run.ID))
	}
}

func TestRetry(t *testing.T) {
	for retries, want := range map[int]int{0: 1, 2: 3} {
		w := newWorld(t, "a", "b")
		w.sites["a"].Head = controltest.Exiting(7)
		run := w.drive(t, w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Retry: retries}), nil)
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || len(attempts) != want || run.State != state.Failed || run.ExitCode == nil || *run.ExitCode != 7 {
			t.Errorf("retry %d: %d attempts, %+v, %v", retries, len(attempts), run, err)
		}
		if slices.ContainsFunc(attempts, func(a state.Attempt) bool { return a.Site != "a" }) {
			t.Errorf("another site was taken: %+v", attempts)
		}
		w.nothingHeld(t)
	}
}

// TestQueue: hosts that come later are waited for, with the reason told, for as
// long as the site's `wait` says; who takes over keeps the place.
func TestQueue(t *testing.T) {
	for _, c := range []struct {
		name  string
		wait  time.Duration
		comes time.Duration
		lost  error
		state state.RunState
		site  string
		event event.Fields
	}{
		{"they come", 0, 9 * time.Hour, nil, state.Succeeded, "a", event.Queued{Reason: "others are before us"}},
		{"they come too late", time.Hour, 9 * time.Hour, nil, state.Succeeded, "b", event.SiteSkipped{Site: "a", Cause: event.Cause{Kind: core.Busy.String()}}},
		{"the site drops the request", 0, 9 * time.Hour, &core.Error{Kind: core.Lost, Err: errors.New("cancelled by the staff")}, state.Succeeded, "b", event.SiteSkipped{Site: "a", Cause: event.Cause{Message: "cancelled by the staff"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				begun := time.Now()
				w.sites["a"].Ready = func() (driver.Waiting, error) {
					if time.Since(begun) > c.comes {
						return driver.Waiting{Ready: true}, nil
					}
					return driver.Waiting{Reason: "others are before us", Expected: begun.Add(c.comes)}, c.lost
				}
				s := submission.Submission{Job: spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}}}
				for _, n := range w.names {
					s.Sites = append(s.Sites, spec.Site{Name: n, Provider: "fake", Wait: c.wait})
				}
				run, lock, err := submission.Submit(t.Context(), w.Store, s)
				if err != nil {
					t.Fatal(err)
				}
				defer lock.Unlock()
				// The first controller dies on the way.
				dying, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				if _, err := w.Drive(dying, run.ID, nil); err == nil && c.lost == nil {
					t.Fatal("it did not wait")
				}
				run = w.drive(t, run, nil)
				attempts, err := w.Store.Attempts(t.Context(), run.ID)
				if err != nil || run.State != c.state || attempts[len(attempts)-1].Site != c.site {
					t.Errorf("%+v, %+v, %v", run, attempts, err)
				}
				if !happened(t, w, run.ID, c.event) {
					t.Errorf("%+v is not in its history: %s", c.event, history(t, w, run.ID))
				}
				if queued := controltest.EventsOf(t, w.Store, run.ID, event.KindQueued); c.site == "a" && (len(queued) == 0 || queued[0].Fields.(event.Queued).Expected.IsZero()) {
					t.Errorf("it was not told when its hosts are expected: %+v", queued)
				}
				if c.site == "a" && (len(attempts) != 1 || attempts[0].Phases[core.PhaseQueue] < 8*time.Hour) {
					t.Errorf("attempts %+v", attempts)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}
