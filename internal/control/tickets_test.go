package control

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/notify"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// changeJobs changes the jobs of tickets, whose cases it numbers from 1.
func changeJobs(t *testing.T, tickets []retention.Ticket, change func(job map[string]any, number int)) {
	t.Helper()
	for i := range tickets {
		var sub map[string]any
		if err := json.Unmarshal(tickets[i].Run.Submission, &sub); err != nil {
			t.Fatal(err)
		}
		change(sub["job"].(map[string]any), i+1)
		raw, err := json.Marshal(sub)
		if err != nil {
			t.Fatal(err)
		}
		tickets[i].Run.Submission = raw
	}
}

// onRecord has runs of tickets on record, as on the machine that submitted them.
func onRecord(t *testing.T, c *Controller, tickets []retention.Ticket, change func(*state.Run)) {
	t.Helper()
	for _, one := range tickets {
		sub, err := submission.Of(one.Run)
		if err != nil {
			t.Fatal(err)
		}
		run := one.Run
		run.Name, sub.Ticket = "n", submission.Sealed
		if run.Submission, err = sub.Encode(); err != nil {
			t.Fatal(err)
		}
		if change(&run); run.State == "" {
			run.State = state.Running
		}
		attempts := append([]state.Attempt{}, one.Attempts...)
		for i := range attempts {
			attempts[i].Run = run.ID
		}
		if _, err := c.Store.Write(t.Context(), state.Change{Run: &run, Attempts: attempts}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestASiteThatIsAnotherOne: a case has not failed because the site of that name here has no case
// at all. It waits for its ticket and begins by nothing else, and a second try adopts it as well.
func TestASiteThatIsAnotherOne(t *testing.T) {
	c, a, tickets, f := arrayWorld(t)
	b := controltest.NewSite(t)
	b.Controllers = leasedir.Adopters(t.TempDir())
	if _, err := b.Controllers.Adopt(t.Context(), driver.Adopter{Ticket: "digest"}, ""); err != nil {
		t.Fatal(err)
	}
	c.Provider = func(s spec.Site) (driver.Provider, error) {
		return map[string]*controltest.Site{"a": a, "b": b}[s.Name], nil
	}
	f.Sites = func([]string) ([]spec.Site, error) { return controltest.Sites("a", "b"), nil }
	tickets[2].Attempts[0].Site = "b"
	for range 2 {
		runs, err := c.AdoptTickets(t.Context(), tickets, f, false)
		if err != nil || len(runs) != 3 || runs[0].State != state.Succeeded || runs[1].State != state.Running || runs[2].Suspended != state.ReasonTicket || runs[2].Remedy == "" {
			t.Fatalf("%+v, %v", runs, err)
		}
	}
	missed := runOf(t, c, tickets[2].Run.ID)
	if attempts, err := c.Store.Attempts(t.Context(), missed.ID); missed.State != state.Suspended || err != nil || len(attempts) != 1 || attempts[0].Lease != nil {
		t.Errorf("on record: %+v, %+v, %v", missed, attempts, err)
	}
	if err := c.Requests().Resume(t.Context(), missed, nil); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("it can be resumed: %v", err)
	}
	b.Held[tickets[2].Attempts[0].Lease.Owner] = true
	if runs, err := c.AdoptTickets(t.Context(), tickets, f, false); err != nil || len(runs) != 3 || runs[2].State != state.Running {
		t.Errorf("a second try: %+v, %v", runs, err)
	}
}

// TestGoneCasesOnRecord: a case of which its site has nothing has failed on the machine that
// submitted it, too.
func TestGoneCasesOnRecord(t *testing.T) {
	c, site, tickets, f := arrayWorld(t)
	onRecord(t, c, tickets[1:], func(r *state.Run) { r.State, r.Suspended = state.Suspended, state.ReasonTicket })
	delete(site.Held, tickets[1].Attempts[0].Lease.Owner)
	runs, err := c.AdoptTickets(t.Context(), tickets, f, false)
	if err != nil || len(runs) != 3 || runs[1].State != state.Failed || runs[2].State != state.Running {
		t.Errorf("%+v, %v", runs, err)
	}
	run := runOf(t, c, tickets[1].Run.ID)
	attempts, err := c.Store.Attempts(t.Context(), run.ID)
	if run.State != state.Failed || run.Suspended != "" || run.Kind != core.Lost.String() || run.Remedy == "" || run.Ended.IsZero() || err != nil || len(attempts) != 1 || !attempts[0].Released() {
		t.Errorf("on record: %+v, %+v, %v", run, attempts, err)
	}
}

// TestNotificationsOfAnAdoptedArray are sent by the first case, even if nothing of that is left.
func TestNotificationsOfAnAdoptedArray(t *testing.T) {
	c, site, tickets, f := arrayWorld(t)
	tickets = tickets[1:]
	changeJobs(t, tickets, func(job map[string]any, _ int) { job["Notify"] = []any{map[string]any{"Command": "true"}} })
	delete(site.Held, tickets[0].Attempts[0].Lease.Owner)
	if runs, err := c.AdoptTickets(t.Context(), tickets, f, false); err != nil || len(runs) != 2 || runs[0].State != state.Failed {
		t.Fatalf("%+v, %v", runs, err)
	}
	if !notify.Has(c.Store, tickets[0].Run.ID) || notify.Has(c.Store, tickets[1].Run.ID) {
		t.Error("the first case has no notifications, or another one has them")
	}
}

// TestPlacesOfAnArray: outputs of cases come where no other run and no other case writes. A second
// try is not refused because of the first.
func TestPlacesOfAnArray(t *testing.T) {
	c, _, tickets, f := arrayWorld(t)
	to := func(dir string) func(map[string]any, int) {
		return func(job map[string]any, n int) {
			job["Outputs"] = []any{map[string]any{"From": "/work/x", "To": filepath.Join(dir, strconv.Itoa(n))}}
		}
	}
	changeJobs(t, tickets, to("/there"))
	own, _ := controltest.Submit(t, c.Store, spec.Job{Name: "mine", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/x", To: filepath.Join(f.Dir, "3")}}}, []string{"a"})
	if runs, err := c.AdoptTickets(t.Context(), tickets, f, false); !core.IsKind(err, core.Busy) || len(runs) > 0 {
		t.Errorf("the place of another run: %+v, %v", runs, err)
	}
	if all, err := c.Store.Runs(t.Context(), state.Filter{}); err != nil || len(all) != 1 {
		t.Errorf("on record: %+v, %v", all, err)
	}
	own.State = state.Succeeded
	if err := c.Store.PutRun(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if runs, err := c.AdoptTickets(t.Context(), tickets, f, false); err != nil || len(runs) != 3 || runs[2].State != state.Running {
			t.Errorf("%+v, %v", runs, err)
		}
	}
	c, _, tickets, f = arrayWorld(t)
	changeJobs(t, tickets, func(job map[string]any, _ int) { to("/there")(job, 1) })
	if runs, err := c.AdoptTickets(t.Context(), tickets, f, false); !core.IsKind(err, core.Invalid) || len(runs) > 0 {
		t.Errorf("two cases of one place: %+v, %v", runs, err)
	}
}

// perCase returns how much memory is allocated for each case of an array that is adopted, counted
// in allocations.
func perCase(t *testing.T, cases int) uint64 {
	t.Helper()
	c, site, three, f := arrayWorld(t)
	tickets := make([]retention.Ticket, cases)
	for i := range tickets {
		var sub map[string]any
		if err := json.Unmarshal(three[1].Run.Submission, &sub); err != nil {
			t.Fatal(err)
		}
		sub["array"] = submission.ArrayCase{ID: "zzzzzzzz", Name: "model", Number: i + 1, Of: cases}
		raw, err := json.Marshal(sub)
		if err != nil {
			t.Fatal(err)
		}
		one := three[1]
		owner := core.Owner{User: one.Installation, Run: state.NewID(), Attempt: 1}
		one.Run = state.Run{ID: owner.Run, Submission: raw, Case: state.Case{Array: "zzzzzzzz", Name: "model", Number: i + 1}}
		one.Attempts = []state.Attempt{{N: 1, Site: "a", Provider: "fake", State: state.Computing, Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}}
		tickets[i], site.Held[owner] = one, true
	}
	changeJobs(t, tickets, func(job map[string]any, n int) {
		job["Outputs"] = []any{map[string]any{"From": "/work/x", "To": "/there/" + strconv.Itoa(n)}}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	runs, err := c.AdoptTickets(t.Context(), tickets, f, false)
	runtime.ReadMemStats(&after)
	if err != nil || len(runs) != cases {
		t.Fatalf("%d cases of %d, %v", len(runs), cases, err)
	}
	return (after.Mallocs - before.Mallocs) / uint64(cases)
}

// TestALargeArrayIsAdopted with as much work for each of its cases as for those of a small one.
func TestALargeArrayIsAdopted(t *testing.T) {
	if small, large := perCase(t, 10), perCase(t, 80); large > small*3/2 {
		t.Errorf("a case of 80 takes %d allocations, and one of 10 takes %d", large, small)
	}
}

// unsteady is a site's record that cannot be reached at first.
type unsteady struct {
	driver.Adopters
	errs *[]error
}

func (u unsteady) Adopt(ctx context.Context, a driver.Adopter, instead string) (driver.Adopter, error) {
	if list := *u.errs; len(list) > 0 {
		*u.errs = list[1:]
		return driver.Adopter{}, list[0]
	}
	return u.Adopters.Adopt(ctx, a, instead)
}

// TestSealAgain: a site that does not answer is asked again for the ticket of an array, and one that
// refuses it is not.
func TestSealAgain(t *testing.T) {
	for name, c2 := range map[string]struct {
		errs   []error
		sealed bool
		waited time.Duration
	}{
		"a site that does not answer": {[]error{&core.Error{Kind: core.Transient, Err: errors.New("away")}, &core.Error{Kind: core.Transient, Err: errors.New("away")}}, true, sealingRetry},
		"one that refuses":            {[]error{&core.Error{Kind: core.Unsupported, Err: errors.New("no")}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, site, tickets, _ := arrayWorld(t)
			c.Log = slog.New(slog.DiscardHandler)
			record := site.Controllers
			site.Controllers = unsteady{record, &c2.errs}
			onRecord(t, c, tickets, func(*state.Run) {})
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				sealed, err := c.Seal(context.Background(), "a key that nobody guesses", tickets[0].Run.ID, tickets[1].Run.ID, tickets[2].Run.ID)
				if (err == nil) != c2.sealed || err != nil && sealed != nil {
					t.Errorf("%d bytes, %v", len(sealed), err)
				}
				if by, aerr := record.Adopt(context.Background(), driver.Adopter{}, ""); aerr != nil || (by.Ticket == retention.TicketDigest(sealed)) != c2.sealed {
					t.Errorf("on the site: %+v, %v", by, aerr)
				}
				if took := time.Since(begun); took < c2.waited {
					t.Errorf("it took %s, want %s at least", took, c2.waited)
				}
			})
		})
	}
}

// TestACaseThatCannotBeHandedOver: once the ticket is stored, there is one.
func TestACaseThatCannotBeHandedOver(t *testing.T) {
	c, _, tickets, _ := arrayWorld(t)
	c.Log = slog.New(slog.DiscardHandler)
	onRecord(t, c, tickets, func(*state.Run) {})
	stored := 0
	s := Sealing{Controller: c, Jobs: []string{"zzzzzzzz"}, Key: "a key that nobody guesses", Write: func(sealed []byte) error {
		stored = len(sealed)
		return c.Store.RemoveRun(t.Context(), tickets[1].Run.ID)
	}}
	runs, err := c.Store.Arrays().Runs(t.Context(), s.Jobs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ticket(t.Context(), runs, []string{tickets[0].Run.ID, tickets[1].Run.ID, tickets[2].Run.ID}); err != nil || stored == 0 {
		t.Errorf("%d bytes are stored, %v", stored, err)
	}
	if run := runOf(t, c, tickets[2].Run.ID); run.State != state.Suspended || run.Suspended != state.ReasonTicket {
		t.Errorf("the case behind is %+v", run)
	}
}

// TestTicketsThatWouldBeTooLarge are refused before anything is submitted.
func TestTicketsThatWouldBeTooLarge(t *testing.T) {
	sub := submission.Submission{Job: spec.Job{Name: "large", Image: "a", Nodes: 1, Env: map[string]string{"A": strings.Repeat("x", 20<<10)}}}
	small := []submission.Submission{sub, sub}
	large := make([]submission.Submission, 1000)
	for i := range large {
		large[i] = sub
	}
	if err := CheckTicket([]submission.Job{{Runs: small}}, "a key that nobody guesses"); err != nil {
		t.Error(err)
	}
	if err := CheckTicket([]submission.Job{{Runs: large}}, "a key that nobody guesses"); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Error(err)
	}
}
