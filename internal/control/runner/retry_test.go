package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// TestALineThatBreaksIsTriedAgain for a while, when inputs go to a site and the
// output comes from there; what is wrong at the site itself is not.
func TestALineThatBreaksIsTriedAgain(t *testing.T) {
	broken := fmt.Errorf("copying: %w", &core.Error{Kind: core.Transient, Err: &core.Error{Kind: core.Lost, Err: errors.New("the connection broke")}})
	none := &core.Error{Kind: core.Transient, Err: errors.New("no route to host"), Remedy: "Is the host up?"}
	for name, c := range map[string]struct {
		answer  func(try int, since time.Duration) error
		takes   time.Duration // each try
		tries   int           // at least
		site    string
		soonest time.Duration
		latest  time.Duration
		event   event.Fields // if any
	}{
		"it comes back":         {answer: func(_ int, since time.Duration) error { return until(since < 30*time.Second, broken) }, tries: 4, site: "a", soonest: 30 * time.Second, latest: time.Minute, event: event.ConnectionLost{Site: "a"}},
		"there is none for now": {answer: func(n int, _ time.Duration) error { return until(n < 3, []error{broken, none, none}[min(n, 2)]) }, tries: 4, site: "a", latest: time.Minute},
		"it holds for a while, time and again": {
			answer: func(n int, _ time.Duration) error { return until(n < 20, broken) }, takes: 10 * time.Second, tries: 21, site: "a",
			soonest: 200 * time.Second, latest: 300 * time.Second,
		},
		"it is gone for good": {answer: func(int, time.Duration) error { return broken }, tries: 5, site: "b", soonest: time.Minute, latest: 2 * time.Minute},
		"it never holds": {
			answer: func(int, time.Duration) error { return broken }, takes: 10 * time.Second, tries: 50, site: "b",
			soonest: 500 * time.Second, latest: 1000 * time.Second,
		},
		"the disk there is full": {answer: func(int, time.Duration) error {
			return &core.Error{Kind: core.Transient, Err: syscall.ENOSPC}
		}, tries: 1, site: "b", latest: time.Second},
	} {
		for _, fetches := range []bool{false, true} {
			if fetches && c.site != "a" {
				continue // what is left on a site is not given up like that
			}
			t.Run(fmt.Sprint(name, ", fetching ", fetches), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "a", "b")
					begun, tries := time.Now(), 0
					a := w.sites["a"]
					what := filepath.Join(a.Dir, "volume/x")
					if fetches {
						what = protocol.OutputPath(a.Dir)
					}
					a.Line = func(remote string) error {
						if remote != what {
							return nil
						}
						time.Sleep(c.takes)
						err := c.answer(tries, time.Since(begun))
						tries++
						return err
					}
					input := filepath.Join(t.TempDir(), "x")
					if err := os.WriteFile(input, nil, 0o600); err != nil {
						t.Fatal(err)
					}
					run := w.drive(t, w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Inputs: []spec.Input{{From: input, To: "/work/x"}}}), nil)
					took := time.Since(begun)
					attempts, err := w.Store.Attempts(t.Context(), run.ID)
					if err != nil || run.State != state.Succeeded || attempts[len(attempts)-1].Site != c.site {
						t.Errorf("%s: %+v, %v", run.State, attempts, err)
					}
					if tries < c.tries || took < c.soonest || took > c.latest {
						t.Errorf("%d tries in %v", tries, took)
					}
					if c.event != nil && !happened(t, w, run.ID, c.event) {
						t.Errorf("the history: %s", history(t, w, run.ID))
					}
					w.nothingHeld(t)
					w.Store.Close()
				})
			})
		}
	}
}

func until(not bool, err error) error {
	if not {
		return err
	}
	return nil
}
