package control

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/runner"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestATicketsJob: of paths, those below the other machine's directory are below the reader's,
// and each other one is shown. Nothing is recorded of a ticket that is refused.
func TestATicketsJob(t *testing.T) {
	store, err := state.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := &Controller{Runner: runner.Runner{Store: store}}
	refused, dir := errors.New("refused"), t.TempDir()
	for name, c2 := range map[string]struct {
		job   map[string]any
		shown string // the key; "": nothing
		kind  core.Kind
	}{
		"outputs beside the Beefile": {job: map[string]any{"Outputs": []any{map[string]any{"From": "/work/x", "To": "/there/job/results"}}}},
		"that directory itself":      {job: map[string]any{"Outputs": []any{map[string]any{"From": "/work/x", "To": "/there/job"}}}},
		"outputs beside it":          {job: map[string]any{"Outputs": []any{map[string]any{"From": "/work/x", "To": "/there/jobs"}}}, shown: "outputs[0].to"},
		"outputs that climb":         {job: map[string]any{"Outputs": []any{map[string]any{"From": "/work/x", "To": "/there/job/../../etc"}}}, shown: "outputs[0].to"},
		"inputs of the reader":       {job: map[string]any{"Inputs": []any{map[string]any{"From": "/etc/passwd", "To": "/work"}}}, shown: "inputs[0].from"},
		"a command":                  {job: map[string]any{"Secrets": map[string]any{"A": map[string]any{"Exec": "id"}}}, shown: "secrets.A.exec"},
		"no job":                     {job: map[string]any{"Nodes": -1}, kind: core.Invalid},
		"one without tickets":        {job: map[string]any{"Volume": map[string]any{"Path": "/work", "Kind": spec.VolumeBurst}}, kind: core.Invalid},
	} {
		job := map[string]any{"Name": "n", "Image": "a", "Run": map[string]any{"Shell": "true"}, "Nodes": 1, "Volume": map[string]any{"Path": "/work"}}
		for key, value := range c2.job {
			job[key] = value
		}
		raw, err := json.Marshal(map[string]any{"version": 1, "job": job})
		if err != nil {
			t.Fatal(err)
		}
		shown := ""
		f := Foreign{Dir: dir, Sites: func([]string) ([]spec.Site, error) { return nil, nil }, Allow: func(reaches []spec.Reach) error {
			if len(reaches) > 0 {
				shown = reaches[0].Key
				return refused
			}
			return nil
		}}
		ticket := retention.Ticket{Installation: "abcdefgh", Dir: "/there/job", Run: state.Run{ID: "bcdefghi", Submission: raw}}
		_, sub, err := c.sealed(t.Context(), ticket, f, nil)
		switch {
		case shown != c2.shown || (shown != "") != errors.Is(err, refused):
			t.Errorf("%s: %q was shown, and %v", name, shown, err)
		case c2.kind != 0 && !core.IsKind(err, c2.kind):
			t.Errorf("%s: %v", name, err)
		case c2.kind == 0 && shown == "" && (err != nil || len(sub.Job.Outputs) > 0 && filepath.Dir(sub.Job.Outputs[0].To) != dir && sub.Job.Outputs[0].To != dir):
			t.Errorf("%s: %v, %+v", name, err, sub.Job.Outputs)
		}
		if _, err := c.AdoptTicket(t.Context(), ticket, f, false); err == nil {
			t.Errorf("%s: it was adopted", name)
		}
		if runs, err := store.Runs(t.Context(), state.Filter{}); err != nil || len(runs) > 0 {
			t.Errorf("%s: left %d runs, %v", name, len(runs), err)
		}
	}
}

// sealedWorld is a site with a lease of which a ticket was made, on another machine.
func sealedWorld(t *testing.T) (c *Controller, site *controltest.Site, ticket retention.Ticket, f Foreign) {
	t.Helper()
	w := controltest.NewWorld(t, "a")
	site = w.Sites["a"]
	site.Controllers = leasedir.Adopters(t.TempDir())
	owner := core.Owner{User: "abcdefgh", Run: "bcdefghi", Attempt: 1}
	site.Held[owner] = true
	if _, err := site.Controllers.Adopt(t.Context(), driver.Adopter{Ticket: "digest"}, ""); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"version": 1, "sites": controltest.Sites("a", "b"), "job": map[string]any{"Name": "n", "Image": "a", "Run": map[string]any{"Shell": "true"}, "Nodes": 1, "Volume": map[string]any{"Path": "/work"}}})
	if err != nil {
		t.Fatal(err)
	}
	ticket = retention.Ticket{
		Installation: "abcdefgh", Machine: "first", Dir: "/there", Digest: "digest", Run: state.Run{ID: "bcdefghi", Submission: raw},
		Attempts: []state.Attempt{{N: 1, Site: "a", Provider: "fake", State: state.Computing, Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}},
	}
	f = Foreign{Dir: t.TempDir(), Allow: func([]spec.Reach) error { return nil }, Sites: func([]string) ([]spec.Site, error) { return controltest.Sites("a", "own"), nil }}
	return &Controller{Runner: runner.Runner{Store: w.Store, Provider: w.Provider}}, site, ticket, f
}

// TestAdoptTogether: of several commands at one time, none undoes what another has recorded.
func TestAdoptTogether(t *testing.T) {
	c, _, ticket, f := sealedWorld(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if run, err := c.AdoptTicket(t.Context(), ticket, f, false); err != nil || run.State != state.Running {
				t.Errorf("%s, %v", run.State, err)
			}
		})
	}
	all.Wait()
	run, err := c.Store.Run(t.Context(), ticket.Run.ID)
	if err != nil || run.State != state.Running {
		t.Fatalf("on record: %+v, %v", run, err)
	}
	sub, err := submission.Of(run)
	if err != nil || len(sub.Sites) != 1 || sub.Sites[0].Name != "a" {
		t.Errorf("its sites are %+v, %v, want those that the ticket has, too", sub.Sites, err)
	}
}

// lostReply is a site's record whose reply is lost after it was written.
type lostReply struct{ driver.Adopters }

func (l lostReply) Adopt(ctx context.Context, a driver.Adopter, instead string) (driver.Adopter, error) {
	by, err := l.Adopters.Adopt(ctx, a, instead)
	if a.Installation != "" {
		err = errors.Join(err, &core.Error{Kind: core.Transient, Err: errors.New("the connection broke")})
	}
	return by, err
}

// TestAdoptAgain: after a try that ended between the record of the site and the one here, the
// same installation adopts the run, and another one gets its name.
func TestAdoptAgain(t *testing.T) {
	c, site, ticket, f := sealedWorld(t)
	record := site.Controllers
	site.Controllers = lostReply{record}
	if _, err := c.AdoptTicket(t.Context(), ticket, f, false); !core.IsKind(err, core.Transient) {
		t.Fatal(err)
	}
	site.Controllers = record
	other, _, _, _ := sealedWorld(t)
	other.Provider = c.Provider
	if _, err := other.AdoptTicket(t.Context(), ticket, f, false); !core.IsKind(err, core.Busy) || !errors.Is(err, runner.ErrAdopted) {
		t.Errorf("another installation: %v", err)
	}
	if run, err := c.AdoptTicket(t.Context(), ticket, f, false); err != nil || run.State != state.Running {
		t.Errorf("the same one: %s, %v", run.State, err)
	}
}

// TestForgedTickets: what a ticket names is checked before anything changes.
func TestForgedTickets(t *testing.T) {
	for name, forge := range map[string]func(c *Controller, ticket *retention.Ticket){
		"the run of another ticket": func(_ *Controller, t *retention.Ticket) { t.Digest = "another" },
		"a run without a ticket":    func(_ *Controller, t *retention.Ticket) { t.Digest = "" },
		"a run of the reader's": func(c *Controller, ticket *retention.Ticket) {
			run, _ := controltest.Submit(t, c.Store, spec.Job{Name: "mine", Nodes: 1, Volume: spec.Volume{Path: "/work"}}, []string{"a"})
			run.State = state.Running
			if err := c.Store.PutRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			ticket.Run.ID, ticket.Attempts[0].Lease.Owner.Run = run.ID, run.ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, site, ticket, f := sealedWorld(t)
			forge(c, &ticket)
			before, err := c.Store.Runs(t.Context(), state.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			if run, err := c.AdoptTicket(t.Context(), ticket, f, true); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
				t.Errorf("adopted %s, %v", run.ID, err)
			}
			after, err := c.Store.Runs(t.Context(), state.Filter{})
			if err != nil || len(after) != len(before) || len(after) > 0 && string(after[0].Submission) != string(before[0].Submission) {
				t.Errorf("the records are %+v, %v, and were %+v", after, err, before)
			}
			if by, err := site.Controllers.Adopt(t.Context(), driver.Adopter{}, ""); err != nil || by.Installation != "" || len(site.Held) != 1 {
				t.Errorf("on the site: %+v, %v, %v", by, err, site.Held)
			}
		})
	}
}

// arrayWorld is sealedWorld with the ticket of an array: case 1 was over, and cases 2 and 3 compute.
func arrayWorld(t *testing.T) (c *Controller, site *controltest.Site, tickets []retention.Ticket, f Foreign) {
	t.Helper()
	c, site, one, f := sealedWorld(t)
	for i, id := range []string{"bcdefghk", "bcdefghi", "bcdefghj"} {
		var sub map[string]any
		if err := json.Unmarshal(one.Run.Submission, &sub); err != nil {
			t.Fatal(err)
		}
		sub["array"] = submission.ArrayCase{ID: "zzzzzzzz", Name: "model", Number: i + 1, Of: 3, AtOnce: 2, Values: spec.Case{"n": "v"}}
		raw, err := json.Marshal(sub)
		if err != nil {
			t.Fatal(err)
		}
		ticket := one
		ticket.Several = true
		ticket.Run = state.Run{ID: id, Submission: raw, Case: state.Case{Array: "zzzzzzzz", Name: "model", Number: i + 1}}
		owner := core.Owner{User: one.Installation, Run: id, Attempt: 1}
		ticket.Attempts = []state.Attempt{{N: 1, Site: "a", Provider: "fake", State: state.Computing, Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}}
		if i == 0 {
			ticket.Run.State, ticket.Attempts[0].State, ticket.Attempts[0].Lease = state.Succeeded, state.Closed, nil
		} else {
			site.Held[owner] = true
		}
		tickets = append(tickets, ticket)
	}
	return c, site, tickets, f
}

// TestAdoptAnArray: the cases are of one array here, that was over too, and a second try changes
// nothing.
func TestAdoptAnArray(t *testing.T) {
	c, _, tickets, f := arrayWorld(t)
	asked := 0
	f.Allow = func([]spec.Reach) error { asked++; return nil }
	for range 2 {
		runs, err := c.AdoptTickets(t.Context(), tickets, f, false)
		if err != nil || len(runs) != 3 {
			t.Fatalf("%+v, %v", runs, err)
		}
		for i, run := range runs {
			want := state.Running
			if i == 0 {
				want = state.Succeeded
			}
			if run.State != want || run.Case != (state.Case{Array: "zzzzzzzz", Name: "model", Number: i + 1}) {
				t.Errorf("case %d is %+v", i+1, run)
			}
		}
	}
	if asked != 2 {
		t.Errorf("the user was asked %d times for two tickets", asked)
	}
	array, err := c.Store.Arrays().Array(t.Context(), "zzzzzzzz")
	if err != nil || array.Cases() != 3 || array.Over() != 1 {
		t.Errorf("on record: %+v, %v", array, err)
	}
	sub, err := submission.Of(runOf(t, c, "bcdefghi"))
	if err != nil || sub.Array == nil || sub.Array.Values["n"] != "v" || sub.Array.AtOnce != 0 || sub.Ticket != submission.Adopted {
		t.Errorf("the submission of a case: %+v, %v", sub.Array, err)
	}
}

func runOf(t *testing.T, c *Controller, id string) state.Run {
	t.Helper()
	run, err := c.Store.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestAdoptAnArrayTogether: of two installations, one has all cases, and the other one no record.
func TestAdoptAnArrayTogether(t *testing.T) {
	first, _, tickets, f := arrayWorld(t)
	second, _, _, _ := arrayWorld(t)
	second.Provider = first.Provider
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, c := range []*Controller{first, second} {
		both.Go(func() { _, errs[i] = c.AdoptTickets(t.Context(), tickets, f, false) })
	}
	both.Wait()
	winner, loser, err := first, second, errs[1]
	if errs[0] != nil {
		winner, loser, err = second, first, errs[0]
	}
	if !core.IsKind(err, core.Busy) || !errors.Is(err, runner.ErrAdopted) || errs[0] == nil && errs[1] == nil {
		t.Errorf("the errors are %v", errs)
	}
	for c, want := range map[*Controller]int{winner: 3, loser: 0} {
		if runs, err := c.Store.Arrays().Runs(t.Context(), "zzzzzzzz"); err != nil || len(runs) != want {
			t.Errorf("%d cases are on record, %v, want %d", len(runs), err, want)
		}
	}
}

// TestCasesThatAreGone: a case of which its site has nothing has failed here, and where that is so
// for all, nothing is recorded.
func TestCasesThatAreGone(t *testing.T) {
	c, site, tickets, f := arrayWorld(t)
	delete(site.Held, tickets[1].Attempts[0].Lease.Owner)
	runs, err := c.AdoptTickets(t.Context(), tickets, f, false)
	if err != nil || len(runs) != 3 || runs[1].State != state.Failed || runs[1].Kind != core.Lost.String() || runs[2].State != state.Running {
		t.Errorf("%+v, %v", runs, err)
	}
	if again, err := c.AdoptTickets(t.Context(), tickets, f, false); err != nil || len(again) != 3 || again[1].State != state.Failed {
		t.Errorf("a second try: %+v, %v", again, err)
	}
	other, site, tickets, f := arrayWorld(t)
	clear(site.Held)
	if runs, err := other.AdoptTickets(t.Context(), tickets, f, false); !core.IsKind(err, core.NotFound) || len(runs) > 0 {
		t.Errorf("where all are gone: %+v, %v", runs, err)
	}
	if runs, err := other.Store.Runs(t.Context(), state.Filter{}); err != nil || len(runs) > 0 {
		t.Errorf("on record: %+v, %v", runs, err)
	}
}

// TestForgedArrays: a ticket adds no case to an array of the reader's, and changes no run of it.
func TestForgedArrays(t *testing.T) {
	for name, forge := range map[string]func(c *Controller, tickets []retention.Ticket) error{
		"an array of the reader's": func(c *Controller, _ []retention.Ticket) error {
			own := state.Run{ID: "mmmmmmmm", Name: "model.1", State: state.Succeeded, Case: state.Case{Array: "zzzzzzzz", Name: "model", Number: 1}, Submission: []byte(`{"version":1}`)}
			return c.Store.PutRun(t.Context(), own)
		},
		"a run of the reader's that is over": func(c *Controller, _ []retention.Ticket) error {
			return c.Store.PutRun(t.Context(), state.Run{ID: "bcdefghk", Name: "mine", State: state.Failed, Submission: []byte(`{"version":1}`)})
		},
		"the digest of another ticket": func(_ *Controller, tickets []retention.Ticket) error {
			for i := range tickets {
				tickets[i].Digest = "another"
			}
			return nil
		},
		"a place that is another one": func(_ *Controller, tickets []retention.Ticket) error {
			tickets[2].Run.Case.Number = 9
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, site, tickets, f := arrayWorld(t)
			if err := forge(c, tickets); err != nil {
				t.Fatal(err)
			}
			before, err := c.Store.Runs(t.Context(), state.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			if runs, err := c.AdoptTickets(t.Context(), tickets, f, true); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" || len(runs) > 0 {
				t.Errorf("adopted %+v, %v", runs, err)
			}
			after, err := c.Store.Runs(t.Context(), state.Filter{})
			if err != nil || len(after) != len(before) || len(after) > 0 && after[0].Name != before[0].Name {
				t.Errorf("the records are %+v, %v", after, err)
			}
			if by, err := site.Controllers.Adopt(t.Context(), driver.Adopter{}, ""); err != nil || by.Installation != "" {
				t.Errorf("on the site: %+v, %v", by, err)
			}
		})
	}
}
