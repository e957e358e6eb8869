package runner

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCostOfAnEarlierAttemptWhileTheNextWaits: once nothing is left, the run does not use the hosts that it waits for.
func TestCostOfAnEarlierAttemptWhileTheNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		ready := false
		w.sites["a"].Ready = func() (driver.Waiting, error) {
			return driver.Waiting{Ready: ready, Billed: time.Now().Add(-time.Second)}, nil
		}
		w.sites["a"].Head = controltest.Succeeding()
		run := w.submit(t)
		sub, err := submission.Of(run)
		if err != nil {
			t.Fatal(err)
		}
		sub.Sites = []spec.Site{{Name: "a", Provider: "local", Price: spec.Price{Amount: 3600}, MaxCost: 600}}
		if run.Submission, err = json.Marshal(sub); err != nil {
			t.Fatal(err)
		}
		first := state.Attempt{
			Run: run.ID, N: 1, Site: "a", Provider: "local", State: state.Closed, Result: state.Lost, Verdict: state.ContinuesLost, Started: time.Now(), Ended: time.Now().Add(time.Minute),
			Record: state.Record{Granted: time.Now(), Hosts: []core.Host{{Name: "f0", Slots: 1}}},
		}
		if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), first, false)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.driveFor(t, run, 30*time.Second); err == nil {
			t.Fatal("the run has not waited")
		}
		if at := w.attempts(t, run)[1]; at.Launched() || at.Billed.Before(at.Started) || time.Since(at.Billed) < 29*time.Second {
			t.Fatalf("attempt 2 is %s, and costs since %s", at.State, at.Billed)
		}
		first.Granted, ready = first.Granted.Add(-time.Hour), true // as if it could not be released
		if err := w.Store.PutAttempt(t.Context(), first, false); err != nil {
			t.Fatal(err)
		}
		run = w.drive(t, run, nil)
		if run.State == state.Succeeded || !strings.Contains(run.Remedy, "max_cost") || w.sites["a"].Launched.Config != nil {
			t.Errorf("got %s, %s (%s)\n%s", run.State, run.Message, run.Remedy, history(t, w, run.ID))
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestCostInAnotherCurrency: what a run has cost in another currency than that of `max_cost` stops it, an attempt that
// cost nothing does not.
func TestCostInAnotherCurrency(t *testing.T) {
	for name, granted := range map[string]time.Duration{"an attempt that cost nothing": 0, "one that had hosts": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				w.sites["a"].Head = controltest.Succeeding()
				run := w.submitJob(t, controltest.Movable())
				sub, err := submission.Of(run)
				if err != nil {
					t.Fatal(err)
				}
				sub.Sites = []spec.Site{{Name: "a", Provider: "local", Price: spec.Price{Amount: 1, Currency: "SU"}, MaxCost: 600}}
				if run.Submission, err = json.Marshal(sub); err != nil {
					t.Fatal(err)
				}
				ended := time.Now()
				first := state.Attempt{
					Run: run.ID, N: 1, Site: "a", Provider: "local", State: state.Closed, Result: state.Lost, Verdict: state.ContinuesLost, Started: ended.Add(-time.Hour), Ended: ended,
					Record: state.Record{Price: &state.Price{Hour: 1, Hosts: 1}},
				}
				if granted > 0 {
					first.Granted, first.Hosts = ended.Add(-granted), []core.Host{{Name: "f0", Slots: 1}}
				}
				if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), first, false)); err != nil {
					t.Fatal(err)
				}
				if run = w.drive(t, run, nil); (run.State == state.Succeeded) != (granted == 0) {
					t.Errorf("got %s, %s\n%s", run.State, run.Message, history(t, w, run.ID))
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestARunCostsNoMoreThanItMay: its slots end before, what it has cost there counts, and it continues once its user
// has raised the limit.
func TestARunCostsNoMoreThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.sites["a"].Head = saving()
		leaveVolume(t, w.sites["a"].Dir, "1")
		connect := w.Connect
		w.Connect = func(c net.Conn) (headlink.Head, error) {
			time.Sleep(time.Minute) // in virtual time
			return connect(c)
		}
		run := w.submitJob(t, controltest.Movable())
		sub, err := submission.Of(run)
		if err != nil {
			t.Fatal(err)
		}
		sub.SitesFile = filepath.Join(t.TempDir(), "sites.yaml")
		sub.Sites = []spec.Site{{Name: "a", Provider: "local", Price: spec.Price{Amount: 3600}, MaxCost: 180}} // 1 a second
		if run.Submission, err = json.Marshal(sub); err != nil {
			t.Fatal(err)
		}
		if err := w.Store.PutRun(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		run = w.drive(t, run, nil)
		attempts := w.attempts(t, run)
		if run.State != state.Suspended || run.Suspended != state.ReasonNoSite || run.Kind != core.Unsupported.String() || !strings.Contains(run.Remedy, "max_cost") || len(attempts) != 2 {
			t.Fatalf("got %s, %s, %s (%s) after %d attempts\n%s", run.State, run.Suspended, run.Message, run.Remedy, len(attempts), history(t, w, run.ID))
		}
		for i, left := range []time.Duration{3 * time.Minute, 2 * time.Minute} {
			if at := attempts[i]; at.Cost(state.Price{}, time.Now()) != 60 || at.Span != left-spec.LeastMargin {
				t.Errorf("attempt %d has cost %v, in a slot of %s", at.N, at.Cost(state.Price{}, time.Now()), at.Span)
			}
		}
		w.nothingHeld(t)
		for _, at := range attempts { // as an older bee left them
			at.Price = nil
			if err := w.Store.PutAttempt(t.Context(), at, false); err != nil {
				t.Fatal(err)
			}
		}
		raised := "sites: [{name: a, provider: local, price: 3600, max_cost: 360}]\n"
		if err := os.WriteFile(sub.SitesFile, []byte(raised), 0o600); err != nil {
			t.Fatal(err)
		}
		if run, err = w.Resume(t.Context(), run, nil); err != nil {
			t.Fatal(err)
		}
		w.sites["a"].Head = controltest.Succeeding()
		run = w.drive(t, run, nil)
		if run.State != state.Succeeded {
			t.Errorf("got %s, %s\n%s", run.State, run.Message, history(t, w, run.ID))
		}
		if at := w.attempts(t, run)[2]; at.Span != 4*time.Minute-spec.LeastMargin {
			t.Errorf("attempt 3 has a slot of %s", at.Span)
		}
		w.Store.Close()
	})
}

// TestPriceOfTheCloud: where the user has written no price, that of the cloud decides the order, by the exchange. The
// attempt costs what its own machines do.
func TestPriceOfTheCloud(t *testing.T) {
	for name, c := range map[string]struct {
		listed *driver.Price
		rate   float64
		site   string
		price  *state.Price
	}{
		"cheaper":         {&driver.Price{Amount: 0.5, Currency: "USD"}, 1, "b", &state.Price{Hour: 0.7, Currency: "USD", Hosts: 1}},
		"dearer":          {&driver.Price{Amount: 0.5, Currency: "USD"}, 4, "a", &state.Price{Hour: 1, Hosts: 1}},
		"without its own": {nil, 1, "a", &state.Price{Hour: 1, Hosts: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a", "b")
			w.sites["a"].LeasePrice = &driver.Price{Amount: 9, Currency: "USD"} // the user has written another
			w.sites["b"].Facts.Price, w.sites["b"].LeasePrice = c.listed, &driver.Price{Amount: 0.7, Currency: "USD"}
			run := w.submit(t)
			sub, err := submission.Of(run)
			if err != nil {
				t.Fatal(err)
			}
			sub.Job.Order = spec.OrderCheapest
			sub.Sites = []spec.Site{{Name: "a", Provider: "local", Price: spec.Price{Amount: 1}}, {Name: "b", Provider: "local", AWS: &spec.AWS{AskPrice: true, Rate: c.rate}}}
			if run.Submission, err = json.Marshal(sub); err != nil {
				t.Fatal(err)
			}
			if err := w.Store.PutRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			w.drive(t, run, nil)
			if at := w.attempts(t, run); len(at) != 1 || at[0].Site != c.site || at[0].Price == nil || *at[0].Price != *c.price {
				t.Errorf("got %+v\n%s", at, history(t, w, run.ID))
			}
		})
	}
}

// TestLimitByPricesOfTheCloud: slots end before the dearest machines that the run may get have cost more than it may.
// Where the cloud has no price, the run is refused.
func TestLimitByPricesOfTheCloud(t *testing.T) {
	for name, c := range map[string]struct {
		listed *driver.Price
		span   time.Duration // 0: it is refused
	}{
		"known":     {&driver.Price{Amount: 3600, Most: 7200, Currency: "USD"}, 90*time.Second - spec.LeastMargin},
		"not known": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.sites["a"].Facts.Price, w.sites["a"].LeasePrice, w.sites["a"].Head = c.listed, c.listed, controltest.Succeeding()
			run := w.submit(t)
			sub, err := submission.Of(run)
			if err != nil {
				t.Fatal(err)
			}
			sub.Sites = []spec.Site{{Name: "a", Provider: "local", AWS: &spec.AWS{AskPrice: true}, MaxCost: 180}}
			if run.Submission, err = json.Marshal(sub); err != nil {
				t.Fatal(err)
			}
			if err := w.Store.PutRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			run = w.drive(t, run, nil)
			list := w.attempts(t, run)
			switch {
			case c.span == 0 && (len(list) != 0 || run.State != state.Failed || run.Kind != core.Unsupported.String() || !strings.Contains(run.Remedy, "price:")):
				t.Errorf("got %s, %s (%s), %+v", run.State, run.Message, run.Remedy, list)
			case c.span > 0 && (run.State != state.Succeeded || len(list) != 1 || list[0].Span != c.span || list[0].Price == nil || list[0].Price.Hour != 3600):
				t.Errorf("got %s, %s, %+v", run.State, run.Message, list)
			}
			w.nothingHeld(t)
		})
	}
}
