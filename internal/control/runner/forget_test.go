package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestForgettingKeepsWhatASiteStillHolds unless the user leaves it there by a flag: without
// the run's record, only a sweep would find it.
func TestForgettingKeepsWhatASiteStillHolds(t *testing.T) {
	for _, c := range []struct {
		name             string
		silent, tidied   bool // the site; by another controller, which does not end
		leave            bool
		kept, held, told bool
	}{
		{name: "the site answers"},
		{name: "the site is silent", silent: true, kept: true, held: true},
		{name: "it is left there", silent: true, leave: true, held: true, told: true},
		{name: "it need not be left there", leave: true},
		{name: "a controller has it", tidied: true, kept: true, held: true},
		{name: "a controller has it, and it is left there", tidied: true, leave: true, kept: true, held: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				var said []string
				w.Report = func(e protocol.Event) { said = append(said, e.Message) }
				sub, err := json.Marshal(submission.Submission{Version: submission.Version, Job: spec.Job{Name: "j", Nodes: 1}, Sites: []spec.Site{{Name: "a", Provider: "fake"}}})
				if err != nil {
					t.Fatal(err)
				}
				run := state.Run{ID: "aaaa1111", Name: "j", State: state.Stopped, Created: time.Now(), Submission: sub}
				if err := w.Store.PutRun(t.Context(), run); err != nil {
					t.Fatal(err)
				}
				if err := w.Store.PutAttempt(t.Context(), state.Attempt{Run: run.ID, N: 1, Site: "a", Started: time.Now()}, false); err != nil {
					t.Fatal(err)
				}
				a := w.sites["a"]
				a.Held[core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}] = true
				if c.silent {
					a.Silence(errSilent)
				}
				if c.tidied {
					lock, err := w.Store.Locks().Acquire(run.ID)
					if err != nil {
						t.Fatal(err)
					}
					defer lock.Unlock()
					elsewhere := []byte("1 1 another-boot\nlogin2\n")
					if err := os.WriteFile(filepath.Join(w.Store.RunDir(run.ID), "lock"), elsewhere, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				err = w.Garbage().Forget(t.Context(), run, gc.Leaving{Sites: c.leave})
				if c.kept && (!core.IsKind(err, core.Busy) || core.Remedy(err) == "") || !c.kept && err != nil {
					t.Errorf("got %v, remedy %q", err, core.Remedy(err))
				}
				if c.tidied && c.kept && !strings.Contains(err.Error(), "login2") {
					t.Errorf("got %v, want that one on login2 has it", err)
				}
				_, err = w.Store.Run(t.Context(), run.ID)
				if kept := !core.IsKind(err, core.NotFound); kept != c.kept || len(w.attempts(t, run)) > 0 != c.kept {
					t.Errorf("it is kept: %t; want %t (%v)", kept, c.kept, err)
				}
				if held := len(a.Held) > 0; held != c.held {
					t.Errorf("the site holds something: %t; want %t", held, c.held)
				}
				if told := strings.Contains(strings.Join(said, "\n"), "site a "); told != c.told {
					t.Errorf("it said %q", said)
				}
				w.Store.Close()
			})
		})
	}
}
