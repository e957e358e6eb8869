package runner

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCleanUpOfAnAdoptedRun: a run that was stopped while its site was silent is another
// machine's once that one has adopted it.
func TestCleanUpOfAnAdoptedRun(t *testing.T) {
	for name, by := range map[string]string{"nobody has adopted it": "", "another machine has": "other"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			site := w.sites["a"]
			site.Controllers = leasedir.Adopters(t.TempDir())
			run := w.submit(t)
			owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
			site.Held[owner] = true
			if by != "" {
				if _, err := site.Controllers.Adopt(t.Context(), driver.Adopter{Installation: by}, ""); err != nil {
					t.Fatal(err)
				}
			}
			sub, err := submission.Of(run)
			if err == nil {
				sub.Ticket, run.State = submission.Sealed, state.Stopped
				run.Submission, err = json.Marshal(sub)
			}
			a := state.Attempt{
				Run: run.ID, N: 1, Site: "a", Provider: "fake", State: state.Releasing, Verdict: state.StoppedByUser,
				Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner},
			}
			if err := errors.Join(err, w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), a, false)); err != nil {
				t.Fatal(err)
			}
			w.drive(t, run, nil)
			attempts, err := w.Store.Attempts(t.Context(), run.ID)
			if err != nil || !attempts[0].Released() || site.Held[owner] != (by != "") {
				t.Errorf("the attempt is %+v, %v, and on the site: %v", attempts, err, site.Held)
			}
		})
	}
}

// TestReplacedController: the controller of a machine that was taken for lost leaves the run to
// the one that has adopted it, also where its user then asks for a stop.
func TestReplacedController(t *testing.T) {
	for name, c := range map[string]struct{ stops, lasts time.Duration }{
		"":                            {lasts: time.Hour},
		"and a stop is asked":         {10*time.Minute + time.Second, time.Hour},
		"and the head ends just then": {lasts: 10*time.Minute + 10*time.Second},
	} {
		t.Run("another machine adopts "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				site := w.sites["a"]
				site.Controllers = leasedir.Adopters(t.TempDir())
				site.Head = controltest.Succeeding()
				site.Head.Lasts = c.lasts
				run := w.submit(t)
				owner := core.Owner{User: "first", Run: run.ID, Attempt: 1}
				site.Held[owner] = true
				sub, err := submission.Of(run)
				if err == nil {
					sub.Ticket, run.State = submission.Adopted, state.Running
					run.Submission, err = json.Marshal(sub)
				}
				a := state.Attempt{
					Run: run.ID, N: 1, Site: "a", Provider: "fake", State: state.Computing, Started: time.Now(),
					Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner},
				}
				if err := errors.Join(err, w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), a, false)); err != nil {
					t.Fatal(err)
				}
				journal(t, site.Dir, protocol.Event{Phase: core.PhaseRun, Begin: true})
				time.AfterFunc(10*time.Minute, func() {
					if by, err := site.Controllers.Adopt(t.Context(), driver.Adopter{Installation: "other", Machine: "m"}, w.Store.User()); err != nil || by.Installation != "other" {
						t.Errorf("%+v, %v", by, err)
					}
				})
				var stop chan struct{}
				if c.stops > 0 {
					stop = make(chan struct{})
					time.AfterFunc(c.stops, func() { close(stop) })
				}
				begun := time.Now()
				run = w.drive(t, run, stop)
				if took := time.Since(begun); run.State != state.Suspended || run.Suspended != state.ReasonTicket || run.Kind != core.Busy.String() || took > 12*time.Minute || !site.Held[owner] {
					t.Errorf("after %v: %s, %s, %s; on the site %v", took, run.State, run.Suspended, run.Message, site.Held)
				}
				w.Store.Close()
			})
		})
	}
}
