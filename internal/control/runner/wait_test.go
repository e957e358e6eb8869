package runner

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// TestWhatOfAWaitIsNews: a site with a new forecast at every look does not fill the history
// of a wait of days, and its last forecast is on record all the same.
func TestWhatOfAWaitIsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		begun := time.Now()
		starts, looks := begun.Add(48*time.Hour), 0
		w.sites["a"].Ready = func() (driver.Waiting, error) {
			if time.Now().After(starts) {
				return driver.Waiting{Ready: true}, nil
			}
			looks++
			expected := starts.Add(time.Duration(looks/40%7-3) * 4 * time.Minute)
			return driver.Waiting{Reason: "others are before us", Expected: expected}, nil
		}
		run := w.submit(t)
		time.AfterFunc(24*time.Hour, func() {
			attempts, err := w.Store.Attempts(t.Context(), run.ID)
			if err != nil || len(attempts) != 1 || attempts[0].Expected.IsZero() || attempts[0].Expected.Sub(starts).Abs() > 13*time.Minute {
				t.Errorf("after a day: %+v, %v", attempts, err)
			}
		})
		if run = w.drive(t, run, nil); run.State != state.Succeeded {
			t.Fatalf("%+v", run)
		}
		if told := len(controltest.EventsOf(t, w.Store, run.ID, event.KindQueued)); told < 1 || told > 20 || looks < 5000 {
			t.Errorf("%d looks, %d events of history", looks, told)
		}
		w.Store.Close()
	})
}

// TestARunThatWaitsForOthersLooksNowAndThen: a site without a queue is asked every few
// seconds, and an unchanged answer is not printed again.
func TestARunThatWaitsForOthersLooksNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, looks, said := newWorld(t, "a"), 0, 0
		begun, report := time.Now(), w.Report
		w.Report = func(e protocol.Event) {
			if strings.Contains(e.Message, "run other is") {
				said++
			}
			report(e)
		}
		w.sites["a"].Forecasts = func() driver.Waiting {
			if time.Since(begun) > time.Hour || looks == 10_000 {
				return driver.Waiting{Expected: time.Now()}
			}
			looks++
			return driver.Waiting{Reason: "run other is there with all its cores"}
		}
		run := w.drive(t, w.submit(t), nil)
		took, few, many := time.Since(begun), int(time.Hour/longestLookAtRuns), int(2*time.Hour/longestLookAtRuns)
		if run.State != state.Succeeded || took > time.Hour+time.Minute || looks < few || looks > many || said != 1 {
			t.Errorf("%s after %v, %d looks, and the reason was said %d times", run.State, took, looks, said)
		}
		w.Store.Close()
	})
}

func TestNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for name, c := range map[string]struct {
			told, now driver.Waiting
			want      bool
			dated     bool
		}{
			"nothing is said":          {driver.Waiting{}, driver.Waiting{}, false, false},
			"the first":                {driver.Waiting{}, driver.Waiting{Reason: "r"}, true, false},
			"the same":                 {driver.Waiting{Reason: "r"}, driver.Waiting{Reason: "r"}, false, false},
			"another reason":           {driver.Waiting{Reason: "q", Expected: in(time.Hour)}, driver.Waiting{Reason: "r", Expected: in(time.Hour)}, true, true},
			"an expectation":           {driver.Waiting{Reason: "r"}, driver.Waiting{Reason: "r", Expected: in(time.Hour)}, true, true},
			"none any more":            {driver.Waiting{Reason: "r", Expected: in(time.Hour)}, driver.Waiting{Reason: "r"}, true, false},
			"it is about to begin":     {driver.Waiting{Reason: "r", Expected: in(50 * time.Second)}, driver.Waiting{Reason: "r"}, false, false},
			"or near":                  {driver.Waiting{Reason: "r", Expected: in(time.Hour)}, driver.Waiting{Reason: "r", Expected: in(30 * time.Second)}, false, false},
			"a little move":            {driver.Waiting{Reason: "r", Expected: in(20 * time.Minute)}, driver.Waiting{Reason: "r", Expected: in(29 * time.Minute)}, false, true},
			"a move":                   {driver.Waiting{Reason: "r", Expected: in(20 * time.Minute)}, driver.Waiting{Reason: "r", Expected: in(31 * time.Minute)}, true, true},
			"to before":                {driver.Waiting{Reason: "r", Expected: in(10 * time.Hour)}, driver.Waiting{Reason: "r", Expected: in(time.Hour)}, true, true},
			"an hour of a week":        {driver.Waiting{Reason: "r", Expected: in(168 * time.Hour)}, driver.Waiting{Reason: "r", Expected: in(169 * time.Hour)}, false, true},
			"two days of it":           {driver.Waiting{Reason: "r", Expected: in(168 * time.Hour)}, driver.Waiting{Reason: "r", Expected: in(216 * time.Hour)}, true, true},
			"what was told has passed": {driver.Waiting{Reason: "r", Expected: in(-time.Minute)}, driver.Waiting{Reason: "r", Expected: in(time.Hour)}, true, true},
		} {
			news, is := reported{c.told, in(-leastMove)}.news(c.now)
			if is != c.want || news.Expected.IsZero() == c.dated {
				t.Errorf("%s: %+v, %v", name, news, is)
			}
		}
		told := reported{driver.Waiting{Reason: "r", Expected: in(time.Hour)}, in(-time.Minute)}
		if news, is := told.news(driver.Waiting{Reason: "r", Expected: in(2 * time.Hour)}); is {
			t.Errorf("a minute after the last: %+v", news)
		}
	})
}

// TestHostsThatStandStill, because their site has them do so, are no lost ones,
// however long that takes.
func TestHostsThatStandStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a := w.sites["a"]
		a.Head.Broken, a.Head.Lasts = 1, time.Minute
		time.AfterFunc(30*time.Second, func() { a.Stand("Slurm has suspended the job") })
		begun := time.Now()
		a.Deadline = begun.Add(time.Hour)
		ends := a.Deadline.Add(30 * time.Hour)
		time.AfterFunc(30*time.Hour, func() {
			a.Mu.Lock()
			defer a.Mu.Unlock()
			a.Still, a.Ends = "", ends
		})
		run, lock, err := submission.Submit(t.Context(), w.Store, submission.Submission{Job: controltest.Movable(), Sites: []spec.Site{{Name: "a", Provider: "fake", Slot: time.Hour}, {Name: "b", Provider: "fake"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Unlock()
		w.lock = lock
		run = w.drive(t, run, nil)
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || run.State != state.Succeeded || len(attempts) != 1 || time.Since(begun) < 30*time.Hour {
			t.Fatalf("after %v: %+v, %+v, %v", time.Since(begun), run, attempts, err)
		}
		if span := attempts[0].Span; span < 30*time.Hour || len(a.Head.Extended) != 1 || !a.Head.Extended[0].Equal(ends) {
			t.Errorf("it may compute for %v, and the head was told of %v", span, a.Head.Extended)
		}
		list := controltest.EventsOf(t, w.Store, run.ID, event.KindHostsSuspended, event.KindHostsResumed, event.KindUnreachable, event.KindUnneeded)
		if len(list) != 2 || list[0].Fields != (event.HostsSuspended{Site: "a", Reason: "Slurm has suspended the job"}) {
			t.Errorf("its history: %+v", list)
		} else if resumed, is := list[1].Fields.(event.HostsResumed); !is || !resumed.Ends.Equal(ends) {
			t.Errorf("its history: %+v", list)
		}
		w.Store.Close()
	})
}
