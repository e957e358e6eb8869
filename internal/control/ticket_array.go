package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/notify"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// opAdoptArray is the operation of AdoptTickets in errors of a whole array.
const opAdoptArray = "adopt array"

// AdoptTickets is AdoptTicket of a run, or of the cases of an array, one after the other. Of two
// installations at once, the one that adopts the first case adopts all: the other one fails
// there. No controller begins before all are adopted.
//
// Cases that were over before the ticket was made are recorded as they ended. A case of which its
// site has nothing any more has failed, if another case was adopted at that site. Else the site of
// that name may be another one here, where the case is not: then it is not recorded, and NotFound.
//
// Where an error comes with runs, these are adopted, and another try continues with the others.
func (c *Controller) AdoptTickets(ctx context.Context, tickets []retention.Ticket, f Foreign, machineLost bool) ([]state.Run, error) {
	if tickets[0].Case().Array == "" {
		run, err := c.AdoptTicket(ctx, tickets[0], f, machineLost)
		if err != nil {
			return nil, err
		}
		return []state.Run{run}, nil
	}
	f, notified, err := c.allowedOnce(ctx, tickets, f)
	if err != nil {
		return nil, err
	}
	first := slices.MinFunc(tickets, func(a, b retention.Ticket) int { return a.Run.Case.Number - b.Run.Case.Number }).Run.ID
	undo := func() {}
	prepare := func() error {
		if !notified {
			return nil
		}
		if _, err := c.Store.Run(ctx, first); !core.IsKind(err, core.NotFound) {
			return err
		}
		undo = func() { core.BestEffort(notify.Remove(c.Store, first)) } // else a later look does
		return notify.Prepare(c.Store, first)
	}
	if err := prepare(); err != nil {
		return nil, err
	}
	var runs []state.Run
	var gone []goneCase
	adopted := map[string]bool{} // sites at which a case was
	for _, t := range tickets {
		if t.Over() {
			continue
		}
		run, err := c.AdoptTicket(ctx, t, f, machineLost)
		switch _, is := errors.AsType[leaseGone](err); {
		case is:
			gone = append(gone, goneCase{t, err})
		case err != nil:
			if len(runs) == 0 {
				undo()
			}
			return runs, err
		default:
			runs = append(runs, run)
			if sub, err := submission.Of(run); err == nil && sub.Ticket == submission.Adopted {
				adopted[t.Site()] = true
			}
		}
	}
	if len(runs) == 0 {
		undo()
		return nil, gone[0].err
	}
	if err := prepare(); err != nil { // the first case may be among those that are gone
		return runs, err
	}
	var unknown error
	for _, g := range gone {
		if !adopted[g.Site()] {
			unknown = cmp.Or(unknown, g.unknown())
			continue
		}
		run, err := c.enterEnd(ctx, g.Ticket, f, g.lost())
		if err != nil {
			return runs, err
		}
		runs = append(runs, run)
	}
	for _, t := range tickets {
		if !t.Over() {
			continue
		}
		run, err := c.enterEnd(ctx, t, f, nil)
		if err != nil {
			return runs, err
		}
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b state.Run) int { return a.Case.Number - b.Case.Number })
	return runs, unknown
}

// OverBefore returns how many runs were over before their tickets were made, and the name of the
// machine that has fetched their outputs.
func OverBefore(tickets []retention.Ticket) (over int, machine string) {
	for _, t := range tickets {
		if t.Over() {
			over, machine = over+1, retention.Plain(t.Machine)
		}
	}
	return over, machine
}

// goneCase is a case of which its site has nothing, and the error that says so.
type goneCase struct {
	retention.Ticket
	err error
}

// lost is why the case has failed.
func (g goneCase) lost() *core.Error {
	return &core.Error{
		Kind: core.Lost, Op: opAdopt, Object: g.Run.ID, Err: g.err,
		Remedy: "Look for its outputs where the ticket was used before. If no machine has them, `bee run --again " + g.Run.ID + "` runs it again.",
	}
}

// unknown is the error where the case may compute, as nothing shows that the site is the same here.
func (g goneCase) unknown() error {
	array := g.Case().Array
	return &core.Error{
		Kind: core.NotFound, Op: opAdoptArray, Object: array, Err: g.err,
		Remedy: fmt.Sprintf("Give site %s the same `scratch` and account as on %q, and the ticket again. `bee wait %s` waits for the cases that are adopted.", retention.Plain(g.Site()), retention.Plain(g.Machine), array),
	}
}

// allowedOnce checks the jobs of tickets, and asks the user once for all of what they do outside
// of the directory of f. The Foreign that it returns allows that. notified means that the array
// has receivers of notifications. Busy: a run that is not over may write the same outputs as one
// of the cases.
func (c *Controller) allowedOnce(ctx context.Context, tickets []retention.Ticket, f Foreign) (allowed Foreign, notified bool, err error) {
	if err := c.ownArray(ctx, tickets); err != nil {
		return f, false, err
	}
	sites, err := f.Sites(nil) // the file is read once
	if err != nil {
		return f, false, err
	}
	f.Sites = func([]string) ([]spec.Site, error) { return slices.Clone(sites), nil }
	var all []spec.Reach
	seen := map[string]bool{}
	look := f
	look.Allow = func(reaches []spec.Reach) error {
		for _, r := range reaches {
			if text := r.String(); !seen[text] {
				seen[text], all = true, append(all, r)
			}
		}
		return nil
	}
	var ids []string
	var subs []submission.Submission
	for _, t := range tickets {
		_, sub, err := c.sealed(ctx, t, look)
		if err != nil {
			return f, false, err
		}
		notified = notified || len(sub.Job.Notify) > 0
		if !t.Over() {
			ids, subs = append(ids, t.Run.ID), append(subs, sub)
		}
	}
	if err := submission.CasesPlacesFree(ctx, c.Store, opAdoptArray, subs, ids); err != nil {
		return f, false, err
	}
	allowed = f
	allowed.Allow = func([]spec.Reach) error { return nil }
	return allowed, notified, f.Allow(all)
}

// ownArray refuses the ticket of an array that would add cases to another one here.
func (c *Controller) ownArray(ctx context.Context, tickets []retention.Ticket) error {
	array := tickets[0].Case().Array
	wrong := func(id string) error {
		return &core.Error{
			Kind: core.Invalid, Op: opAdopt, Object: id, Err: errors.New("an array or a run of that id is on record here, and the ticket is not of it"),
			Remedy: "The ticket is not one of an array of yours: do not use it.",
		}
	}
	known, err := c.Store.Arrays().Runs(ctx, array)
	if err != nil {
		return err
	}
	numbers := make(map[string]int, len(tickets))
	for _, t := range tickets {
		numbers[t.Run.ID] = t.Run.Case.Number
	}
	for _, run := range known {
		if numbers[run.ID] != run.Case.Number {
			return wrong(array)
		}
	}
	for _, t := range tickets {
		run, err := c.Store.Run(ctx, t.Run.ID)
		if core.IsKind(err, core.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if run.Case.Array != array {
			return wrong(run.ID)
		}
	}
	return nil
}

// enterEnd records a case that has no attempt to adopt: it was over, or has failed for the reason
// why. One that is on record is left as it is, unless it waits there for its ticket.
func (c *Controller) enterEnd(ctx context.Context, t retention.Ticket, f Foreign, why *core.Error) (state.Run, error) {
	known, err := c.Store.Run(ctx, t.Run.ID)
	if err == nil && known.Suspended == state.ReasonTicket && why != nil {
		return c.endKnown(ctx, t.Run.ID, why)
	}
	if !core.IsKind(err, core.NotFound) {
		return known, err
	}
	run, sub, err := c.sealed(ctx, t, f)
	if err != nil {
		return run, err
	}
	if why != nil {
		t.Run.State, t.Run.Kind, t.Run.Message, t.Run.Remedy = state.Failed, why.Kind.String(), why.Error(), why.Remedy
	}
	run, attempts, err := t.End(run)
	if err != nil {
		return run, err
	}
	return run, c.enterSealed(ctx, run, &sub, attempts)
}

// endKnown records that a case on record here, which waits for its ticket, has failed.
func (c *Controller) endKnown(ctx context.Context, id string, why *core.Error) (state.Run, error) {
	run, lock, err := c.lockTicket(ctx, id)
	if err != nil || lock == nil {
		return run, err
	}
	defer lock.Unlock()
	if run.ID == "" { // it was removed meanwhile
		return c.Store.Run(ctx, id)
	}
	attempts, err := c.Store.Attempts(ctx, id)
	if err != nil {
		return run, err
	}
	run.State, run.Suspended, run.Ended = state.Failed, "", time.Now()
	run.Kind, run.Message, run.Remedy = why.Kind.String(), why.Error(), why.Remedy
	attempts = slices.DeleteFunc(attempts, func(a state.Attempt) bool { return a.Released() })
	for i := range attempts {
		a := &attempts[i]
		a.State, a.Autostart, a.Verdict, a.Ended = state.Closed, state.NoAutostart, state.NotContinued, run.Ended
		a.Kind, a.Message, a.Remedy = run.Kind, run.Message, run.Remedy
	}
	_, err = c.Store.Write(ctx, state.Change{Run: &run, Attempts: attempts, Durable: true})
	return run, err
}

// caseOf returns the place in its array that the run of a ticket has here; nil: it is in none.
func caseOf(t retention.Ticket, place *submission.ArrayCase) (*submission.ArrayCase, error) {
	of := t.Case()
	switch {
	case of.Array == "" && place == nil:
		return nil, nil
	case of.Array == "" || place == nil || place.ID != of.Array || place.Number != of.Number || place.Of < of.Number || place.Of > mostCases || place.Pack != 0:
		return nil, retention.ForeignError(t.Run.ID, errors.New("its place in an array cannot be"))
	}
	kept := &submission.ArrayCase{ID: of.Array, Name: of.Name, Number: of.Number, Of: place.Of, Values: spec.Case{}}
	for name, value := range place.Values {
		if len(kept.Values) == mostValues {
			return nil, retention.ForeignError(t.Run.ID, fmt.Errorf("it has %d values", len(place.Values)))
		}
		kept.Values[retention.Plain(name)] = retention.Plain(value)
	}
	return kept, nil
}

// Bounds of an array whose ticket another installation has sealed.
const (
	mostCases  = 100_000
	mostValues = 1000
)
