package control

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// jobsWorld is sealedWorld with the ticket of three jobs: a mesh that computes, an array of two cases
// that waits for it, and a plot that waits for the array.
func jobsWorld(t *testing.T) (c *Controller, site *controltest.Site, tickets []retention.Ticket, f Foreign) {
	t.Helper()
	c, site, mesh, f := sealedWorld(t)
	sealed := func(id string, of state.Case, change func(sub map[string]any)) retention.Ticket {
		var sub map[string]any
		if err := json.Unmarshal(mesh.Run.Submission, &sub); err != nil {
			t.Fatal(err)
		}
		change(sub)
		raw, err := json.Marshal(sub)
		if err != nil {
			t.Fatal(err)
		}
		one := mesh
		one.Several, one.Attempts, one.Key = true, nil, nil
		one.Run = state.Run{ID: id, Submission: raw, State: state.Queued, Case: of}
		return one
	}
	first := sealed(mesh.Run.ID, state.Case{}, func(sub map[string]any) {
		sub["job"].(map[string]any)["Outputs"] = []any{map[string]any{"From": "/work/mesh", "To": "/there/results"}}
	})
	first.Run.State, first.Attempts = "", mesh.Attempts
	tickets = append(tickets, first)
	for i, id := range []string{"bcdefghj", "bcdefghk"} {
		tickets = append(tickets, sealed(id, state.Case{Array: "zzzzzzzz", Name: "model", Number: i + 1, AtOnce: 1}, func(sub map[string]any) {
			job := sub["job"].(map[string]any)
			job["Inputs"] = []any{map[string]any{"From": "/there/results/mesh", "To": "/work"}, map[string]any{"From": "/there/own.dat", "To": "/work"}}
			sub["after"] = []submission.Dependency{{Run: mesh.Run.ID, Name: "mesh", On: spec.AfterSuccess}}
			sub["array"] = submission.ArrayCase{ID: "zzzzzzzz", Name: "model", Number: i + 1, Of: 2, AtOnce: 1, OnFailure: spec.OnFailure{At: "1"}, StopAt: 1}
		}))
	}
	return c, site, append(tickets, sealed("bcdefghl", state.Case{}, func(sub map[string]any) {
		sub["after"] = []submission.Dependency{{Run: "zzzzzzzz", Name: "model", On: spec.AfterEnd, Array: true}}
		sub["job"].(map[string]any)["Outputs"] = []any{map[string]any{"From": "/work/plot", "To": "/there/results"}}
	})), f
}

// TestAdoptJobs: those that have not begun wait here for those that are adopted, and nothing is adopted
// as long as a file that they need is missing. A second try changes nothing.
func TestAdoptJobs(t *testing.T) {
	c, site, tickets, f := jobsWorld(t)
	runs, err := c.AdoptTickets(t.Context(), tickets, f, false)
	if !core.IsKind(err, core.NotFound) || !strings.Contains(err.Error(), filepath.Join(f.Dir, "own.dat")) || core.Remedy(err) == "" || len(runs) > 0 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if by, err := site.Controllers.Adopt(t.Context(), driver.Adopter{}, ""); err != nil || by.Installation != "" {
		t.Errorf("on the site: %+v, %v", by, err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir, "own.dat"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if runs, err = c.AdoptTickets(t.Context(), tickets, f, false); err != nil || len(runs) != 4 {
			t.Fatalf("%+v, %v", runs, err)
		}
		for i, want := range []state.RunState{state.Running, state.Queued, state.Queued, state.Queued} {
			if runs[i].State != want || runs[i].ID != tickets[i].Run.ID || runs[i].Case != tickets[i].Run.Case {
				t.Errorf("run %d is %+v", i, runs[i])
			}
		}
	}
	sub, err := submission.Of(runOf(t, c, "bcdefghj"))
	if err != nil || len(sub.After) != 1 || sub.After[0].Run != tickets[0].Run.ID || !sub.Array.Limited() && sub.Array.AtOnce != 1 || sub.Array.StopAt != 1 || sub.Ticket != submission.Adopted {
		t.Errorf("the submission of a case: %+v, %+v, %v", sub.After, sub.Array, err)
	}
	if got := sub.Job.Inputs[0].From; got != filepath.Join(f.Dir, "results", "mesh") {
		t.Errorf("its input is %s", got)
	}
	if due, err := c.Store.Arrays().Due(t.Context(), "zzzzzzzz"); err != nil || len(due) != 1 {
		t.Errorf("the turn of %q has come, %v", due, err)
	}
	other, _, _, _ := jobsWorld(t)
	other.Provider = c.Provider
	if runs, err := other.AdoptTickets(t.Context(), tickets, f, false); !core.IsKind(err, core.Busy) || len(runs) > 0 {
		t.Errorf("another installation: %+v, %v", runs, err)
	}
	if runs, err := other.Store.Runs(t.Context(), state.Filter{}); err != nil || len(runs) > 0 {
		t.Errorf("on its record: %+v, %v", runs, err)
	}
}

// TestJobsOnTheMachineThatSubmittedThem: nothing but the ticket begins there what had not begun.
func TestJobsOnTheMachineThatSubmittedThem(t *testing.T) {
	c, _, tickets, f := jobsWorld(t)
	onRecord(t, c, tickets, func(r *state.Run) { r.State, r.Suspended = state.Suspended, state.ReasonTicket })
	for _, one := range tickets[1:] {
		if err := c.Requests().Resume(t.Context(), runOf(t, c, one.Run.ID), nil); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("run %s can be resumed: %v", one.Run.ID, err)
		}
	}
	runs, err := c.AdoptTickets(t.Context(), tickets, f, false)
	if err != nil || len(runs) != 4 || runs[0].State != state.Running || runs[3].State != state.Queued {
		t.Errorf("%+v, %v", runs, err)
	}
}

// lostWorld is jobsWorld with two more jobs: a model that computes beside the mesh, and one for the case
// that the mesh fails. Nothing of the mesh is left at its site.
func lostWorld(t *testing.T) (c *Controller, site *controltest.Site, tickets []retention.Ticket, f Foreign) {
	t.Helper()
	c, site, tickets, f = jobsWorld(t)
	if err := os.WriteFile(filepath.Join(f.Dir, "own.dat"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mesh := tickets[0]
	owner := core.Owner{User: mesh.Installation, Run: "bcdefghm", Attempt: 1}
	beside := mesh
	beside.Run.ID = owner.Run
	beside.Attempts = []state.Attempt{{N: 1, Site: "a", Provider: "fake", State: state.Computing, Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}}}
	mourn := tickets[3]
	mourn.Run.ID = "bcdefghn"
	changed := []retention.Ticket{beside, mourn}
	for i, after := range [][]submission.Dependency{nil, {{Run: mesh.Run.ID, Name: "mesh", On: spec.AfterFailure}}} {
		var sub map[string]any
		if err := json.Unmarshal(changed[i].Run.Submission, &sub); err != nil {
			t.Fatal(err)
		}
		delete(sub["job"].(map[string]any), "Outputs")
		sub["after"] = after
		var err error
		if changed[i].Run.Submission, err = json.Marshal(sub); err != nil {
			t.Fatal(err)
		}
	}
	delete(site.Held, mesh.Attempts[0].Lease.Owner)
	site.Held[owner] = true
	return c, site, append(append(tickets[:1:1], changed...), tickets[1:]...), f
}

// waiting fails the test unless all runs of lostWorld are so that wait for others.
func waiting(t *testing.T, c *Controller, tickets []retention.Ticket, in state.RunState, why state.SuspendReason) {
	t.Helper()
	for _, one := range tickets[2:] {
		run := runOf(t, c, one.Run.ID)
		if run.State != in || run.Suspended != why || (in == state.Suspended) != (run.Remedy != "") {
			t.Errorf("run %s is %+v", run.ID, run)
		}
	}
}

// TestJobsThatALostMachineMayHaveBegun are begun by their user alone: those after a run that another
// machine may have fetched, however they wait for it, also if the ticket is given again.
func TestJobsThatALostMachineMayHaveBegun(t *testing.T) {
	c, _, tickets, f := lostWorld(t)
	for i := range 3 {
		runs, err := c.AdoptTickets(t.Context(), tickets, f, true)
		if err != nil || len(runs) != len(tickets) || runs[0].State != state.Failed || runs[1].State != state.Running {
			t.Fatalf("%+v, %v", runs, err)
		}
		waiting(t, c, tickets, state.Suspended, state.ReasonAdopted)
		if i == 0 { // as if the command had ended before it recorded one of them
			if err := c.Store.RemoveRun(t.Context(), tickets[2].Run.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if run, err := c.Resume(t.Context(), runOf(t, c, tickets[2].Run.ID), nil); err != nil || run.State != state.Queued {
		t.Errorf("resumed, it is %+v, %v", run, err)
	}
}

// TestJobsThatAnotherMachineMayBegin wait for their ticket, as long as a run before them may be elsewhere.
func TestJobsThatAnotherMachineMayBegin(t *testing.T) {
	c, a, tickets, f := lostWorld(t)
	b := controltest.NewSite(t)
	b.Controllers = a.Controllers
	c.Provider = func(s spec.Site) (driver.Provider, error) {
		return map[string]*controltest.Site{"a": a, "b": b}[s.Name], nil
	}
	f.Sites = func([]string) ([]spec.Site, error) { return controltest.Sites("a", "b"), nil }
	tickets[0].Attempts[0].Site = "b"
	for i, want := range []state.RunState{state.Suspended, state.Running} {
		if i > 0 {
			b.Held[tickets[0].Attempts[0].Lease.Owner] = true
		}
		if runs, err := c.AdoptTickets(t.Context(), tickets, f, true); err != nil || len(runs) != len(tickets) || runs[0].State != want {
			t.Fatalf("%+v, %v", runs, err)
		}
		if want == state.Running {
			waiting(t, c, tickets, state.Queued, "")
		} else {
			waiting(t, c, tickets, state.Suspended, state.ReasonTicket)
		}
	}
}

// TestATicketIsStoredOnceNothingBeginsHere: what waits is left to the machine that has the ticket before
// that can be read, and waits here again if it could not be stored.
func TestATicketIsStoredOnceNothingBeginsHere(t *testing.T) {
	c, _, tickets, _ := jobsWorld(t)
	c.Log = slog.New(slog.DiscardHandler)
	onRecord(t, c, tickets, func(*state.Run) {})
	var ids []string
	for _, one := range tickets {
		ids = append(ids, one.Run.ID)
	}
	full := errors.New("the disk is full")
	s := Sealing{Controller: c, Jobs: []string{ids[0], "zzzzzzzz", ids[3]}, Key: "a key that nobody guesses"}
	for _, fails := range []error{full, nil} {
		s.Write = func([]byte) error {
			for _, id := range ids[1:] {
				if run := runOf(t, c, id); run.Suspended != state.ReasonTicket {
					t.Errorf("run %s may begin: %+v", id, run)
				}
			}
			return fails
		}
		runs, err := s.all(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ticket(t.Context(), runs, ids); !errors.Is(err, fails) {
			t.Fatal(err)
		}
		for i, id := range ids {
			if run := runOf(t, c, id); (run.State == state.Suspended) != (fails == nil) || fails != nil && i > 0 && run.State != state.Queued {
				t.Errorf("run %s is %+v", id, run)
			}
		}
	}
}

// TestForgedJobs: what a run waits for is before it in the ticket, and no other run here.
func TestForgedJobs(t *testing.T) {
	for name, forge := range map[string]func(sub map[string]any){
		"another run": func(sub map[string]any) { sub["after"] = []submission.Dependency{{Run: "mmmmmmmm", On: "end"}} },
		"itself":      func(sub map[string]any) { sub["after"] = []submission.Dependency{{Run: "bcdefghl", On: "end"}} },
		"a run as an array": func(sub map[string]any) {
			sub["after"] = []submission.Dependency{{Run: "bcdefghi", On: "end", Array: true}}
		},
		"an end that is none": func(sub map[string]any) { sub["after"] = []submission.Dependency{{Run: "bcdefghi", On: "soon"}} },
		"nothing":             func(sub map[string]any) { delete(sub, "after") },
		"an image that is built": func(sub map[string]any) {
			sub["job"].(map[string]any)["Image"] = "docker-daemon:app:ci"
		},
	} {
		c, site, tickets, f := jobsWorld(t)
		if err := os.WriteFile(filepath.Join(f.Dir, "own.dat"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var sub map[string]any
		if err := json.Unmarshal(tickets[3].Run.Submission, &sub); err != nil {
			t.Fatal(err)
		}
		forge(sub)
		var err error
		if tickets[3].Run.Submission, err = json.Marshal(sub); err != nil {
			t.Fatal(err)
		}
		if runs, err := c.AdoptTickets(t.Context(), tickets, f, false); !core.IsKind(err, core.Invalid) || len(runs) > 0 {
			t.Errorf("%s: %+v, %v", name, runs, err)
		}
		if by, err := site.Controllers.Adopt(t.Context(), driver.Adopter{}, ""); err != nil || by.Installation != "" {
			t.Errorf("%s: on the site: %+v, %v", name, by, err)
		}
	}
}

// TestJobsThatOnlyThisMachineBegins have no ticket, unless they wait for nothing.
func TestJobsThatOnlyThisMachineBegins(t *testing.T) {
	for name, change := range map[string]func(*spec.Job){
		"an image of docker":  func(j *spec.Job) { j.Image = "docker-daemon:app:ci" },
		"an image to build":   func(j *spec.Job) { j.Build = &spec.Build{} },
		"a volume of a file":  func(j *spec.Job) { j.Volume.From = "/data.img" },
		"an image of a guest": func(j *spec.Job) { j.VM = &spec.VM{Image: "oci:/guest"} },
	} {
		sub := submission.Submission{Job: spec.Job{Name: "plot", Image: "a", Nodes: 1}}
		change(&sub.Job)
		jobs := []submission.Job{{Runs: []submission.Submission{sub}}}
		if err := CheckTicket(jobs, "a key that nobody guesses"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		jobs[0].Links = []submission.Link{{Job: 1, On: spec.AfterEnd}}
		if err := CheckTicket(jobs, "a key that nobody guesses"); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRunsThatWaitForTheirTicket: those that wait for others of the ticket need no controller. One that
// can begin does, and one that waits for a run beside the ticket does as well.
func TestRunsThatWaitForTheirTicket(t *testing.T) {
	const mesh, first, second, plot = "bcdefghi", "bcdefghj", "bcdefghk", "bcdefghl"
	for name, c2 := range map[string]struct {
		mesh    state.RunState
		outside bool
		want    map[string]bool
	}{
		"the mesh computes":               {state.Running, false, map[string]bool{first: true, second: true, plot: true}},
		"the plot waits for another run":  {state.Running, true, map[string]bool{first: true, second: true, plot: false}},
		"the mesh has succeeded":          {state.Succeeded, false, map[string]bool{plot: true}},
		"the array can never begin":       {state.Failed, false, map[string]bool{plot: true}},
		"the mesh has ended, and another": {state.Succeeded, true, map[string]bool{plot: false}},
	} {
		c, _, tickets, _ := jobsWorld(t)
		onRecord(t, c, tickets, func(r *state.Run) {
			if r.State = state.Queued; r.ID == mesh {
				r.State = c2.mesh
			}
			sub, err := submission.Of(*r)
			if err == nil && r.ID == plot && c2.outside {
				sub.After = append(sub.After, submission.Dependency{Run: "mmmmmmmm", Name: "other", On: spec.AfterEnd})
				r.Submission, err = sub.Encode()
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		if err := c.Store.PutRun(t.Context(), state.Run{ID: "mmmmmmmm", Name: "other", State: state.Running, Submission: []byte(`{"version":1}`)}); err != nil {
			t.Fatal(err)
		}
		s := Sealing{Controller: c, Jobs: []string{mesh, "zzzzzzzz", plot}}
		runs, err := s.all(t.Context())
		if err == nil {
			err = s.know(runs)
		}
		if err != nil {
			t.Fatal(err)
		}
		live, err := state.Live(t.Context(), c.Store)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.waiting(t.Context(), live); err != nil || !maps.Equal(got, c2.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c2.want)
		}
	}
}
