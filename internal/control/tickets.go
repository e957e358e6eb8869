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
	"github.com/bee-hpc/bee/internal/state"
)

// opAdoptRuns is the operation of AdoptTickets in errors of several runs.
const opAdoptRuns = "adopt runs"

// AdoptTickets is AdoptTicket of a run, or of several, one after the other: of the cases of an array,
// or of several jobs. Of two installations at once, the one that adopts the first run adopts all: the
// other one fails there. No controller begins before all are adopted.
//
// Runs that were over before the ticket was made are recorded as they ended. Those that waited for
// others are recorded once these are, and begin here. A run of which its site has nothing any more has
// failed, if another one was adopted at that site. Else the site of that name may be another one here,
// where the run is not: then it is suspended until the ticket is given again. What waits for such a run
// is suspended with it: another machine may have begun that.
//
// Where an error comes with runs, these are adopted, and another try continues with the others.
func (c *Controller) AdoptTickets(ctx context.Context, tickets []retention.Ticket, f Foreign, machineLost bool) ([]state.Run, error) {
	if !tickets[0].Several {
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
	undo, err := c.prepareNotifications(ctx, notified)
	if err != nil {
		return nil, err
	}
	var none error
	gone, known, adopted := map[string]goneRun{}, map[string]state.Run{}, map[string]bool{} // sites at which a run was
	for _, t := range tickets {
		if t.Over() || t.Waits() {
			continue
		}
		run, err := c.AdoptTicket(ctx, t, f, machineLost)
		switch _, is := errors.AsType[leaseGone](err); {
		case is:
			none, gone[t.Run.ID] = cmp.Or(none, err), goneRun{t, err}
		case err != nil:
			if len(known) == 0 {
				undo()
			}
			return inOrder(tickets, known), err
		default:
			known[run.ID] = run
			if sub, err := submission.Of(run); err == nil && sub.Ticket == submission.Adopted {
				adopted[t.Site()] = true
			}
		}
	}
	if len(known) == 0 {
		undo()
		return nil, none
	}
	if _, err := c.prepareNotifications(ctx, notified); err != nil { // the first case may be among those that are gone
		return inOrder(tickets, known), err
	}
	doubts, err := inDoubt(tickets, gone, known, adopted)
	if err != nil {
		return inOrder(tickets, known), err
	}
	before := map[string]bool{}
	for _, t := range tickets {
		g, isGone := gone[t.Run.ID]
		var run state.Run
		var err error
		switch {
		case isGone && adopted[t.Site()]:
			run, err = c.enterEnd(ctx, t, f, before, g.lost())
		case isGone:
			run, err = c.enterMissed(ctx, g, f)
		case t.Over():
			run, err = c.enterEnd(ctx, t, f, before, nil)
		case t.Waits():
			run, err = c.enterWaiting(ctx, t, f, before, doubts[t.Job()])
		default:
			run = known[t.Run.ID]
		}
		if err != nil {
			return inOrder(tickets, known), err
		}
		known[run.ID], before[t.Job()] = run, t.Run.Case.Array != ""
	}
	return inOrder(tickets, known), nil
}

// inOrder returns those runs of tickets that are known: job by job, with cases by their number.
func inOrder(tickets []retention.Ticket, known map[string]state.Run) (runs []state.Run) {
	jobs := map[string]int{}
	for i, t := range tickets {
		if _, is := jobs[t.Job()]; !is {
			jobs[t.Job()] = i
		}
		if run, is := known[t.Run.ID]; is {
			runs = append(runs, run)
		}
	}
	slices.SortStableFunc(runs, func(a, b state.Run) int {
		return cmp.Or(jobs[a.Job()]-jobs[b.Job()], a.Case.Number-b.Case.Number)
	})
	return runs
}

// prepareNotifications prepares those of the runs that are new here and that have some, for themselves
// or their array. undo removes them.
func (c *Controller) prepareNotifications(ctx context.Context, ids []string) (undo func(), err error) {
	var prepared []string
	undo = func() {
		for _, id := range prepared {
			core.BestEffort(notify.Remove(c.Store, id)) // else a later look does
		}
	}
	for _, id := range ids {
		_, err := c.Store.Run(ctx, id)
		if core.IsKind(err, core.NotFound) {
			prepared = append(prepared, id)
			err = notify.Prepare(c.Store, id)
		}
		if err != nil {
			undo()
			return nil, err
		}
	}
	return undo, nil
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

// goneRun is a run of which its site has nothing, and the error that says so.
type goneRun struct {
	retention.Ticket
	err error
}

// lost is why the run has failed.
func (g goneRun) lost() *core.Error {
	return &core.Error{
		Kind: core.Lost, Op: opAdopt, Object: g.Run.ID, Err: g.err,
		Remedy: "Look for its outputs where the ticket was used before. If no machine has them, `bee run --again " + g.Run.ID + "` runs it again.",
	}
}

// missed is why the run is suspended, which may compute, as nothing shows that the site is the same here.
func (g goneRun) missed() *core.Error {
	return &core.Error{
		Kind: core.NotFound, Op: opAdopt, Object: g.Run.ID, Err: g.err,
		Remedy: fmt.Sprintf("Give site %s the same `scratch` and account as on %q, and the ticket again. `bee stop %s` gives the run up.", retention.Plain(g.Site()), retention.Plain(g.Machine), g.Run.ID),
	}
}

// doubt is why it is not known whether another machine has begun a run that waits for others.
type doubt int

// The doubts, the gravest last.
const (
	noDoubt doubt = iota
	// aMissed: one that it waits for may compute elsewhere. The ticket, given again, may show that.
	aMissed
	// aLost: nothing of one that it waits for is left, which another machine may have brought to its end.
	aLost
)

// inDoubt returns the jobs of a ticket of which another machine may have carried out a run, and those
// that wait for such a job, directly or not, whatever its end is to be. known are the runs that have
// begun, and adopted the sites at which one was adopted.
func inDoubt(tickets []retention.Ticket, gone map[string]goneRun, known map[string]state.Run, adopted map[string]bool) (map[string]doubt, error) {
	jobs := map[string]doubt{}
	for _, t := range tickets {
		run, isKnown := known[t.Run.ID]
		_, isGone := gone[t.Run.ID]
		why := noDoubt
		switch {
		case isGone && adopted[t.Site()]:
			why = aLost
		case isGone:
			why = aMissed
		case isKnown && run.State.Final(): // by an earlier try, or by this machine, which never had it by the ticket
			if sub, err := submission.Of(run); err != nil || sub.Ticket != submission.Adopted {
				why = aLost
			}
		}
		jobs[t.Job()] = max(jobs[t.Job()], why)
	}
	for _, t := range tickets { // each after those that it waits for
		if !t.Waits() {
			continue
		}
		var sub submission.Submission
		if err := core.DecodeJSON(t.Run.Submission, &sub); err != nil {
			return nil, retention.ForeignError(t.Run.ID, err)
		}
		for _, d := range sub.After {
			jobs[t.Job()] = max(jobs[t.Job()], jobs[d.Run])
		}
	}
	return jobs, nil
}

// begunElsewhere is why a run is suspended that waits for others.
func (d doubt) begunElsewhere(id string) *core.Error {
	if d == aMissed {
		return &core.Error{
			Kind: core.NotFound, Op: opAdopt, Object: id, Err: errors.New("another machine may have begun it: its site has nothing of a run that it waits for"),
			Remedy: "Give the ticket again once that run is found at its site. `bee stop " + id + "` gives this one up.",
		}
	}
	return &core.Error{
		Kind: core.Lost, Op: opAdopt, Object: id, Err: errors.New("another machine may have begun it, as it may have fetched a run that it waits for"),
		Remedy: "Look where the ticket was used before. If nothing has begun it, `bee resume " + id + "` queues it here. `bee stop " + id + "` gives it up.",
	}
}

// enterWaiting records a run that had not begun when its ticket was made: it begins here, once those
// that it waits for have ended, unless another machine may have begun it. One that is on record is left
// as it is, unless it waits for its ticket.
func (c *Controller) enterWaiting(ctx context.Context, t retention.Ticket, f Foreign, before map[string]bool, why doubt) (state.Run, error) {
	known, lock, err := c.lockTicket(ctx, t.Run.ID)
	if err != nil || lock == nil {
		return known, err
	}
	defer lock.Unlock()
	run, sub := known, submission.Submission{}
	if known.ID != "" { // on the machine that made the ticket
		sub, err = submission.Of(known)
	} else {
		run, sub, err = c.sealed(ctx, t, f, before)
	}
	if err != nil {
		return run, err
	}
	run.State, run.Suspended, run.Kind, run.Message, run.Remedy, sub.Ticket = state.Queued, "", "", "", "", submission.Adopted
	if why != noDoubt {
		e := why.begunElsewhere(run.ID)
		run.State, run.Suspended, run.Kind, run.Message, run.Remedy = state.Suspended, state.ReasonTicket, e.Kind.String(), e.Error(), e.Remedy
	}
	if why == aLost { // no ticket queues it any more
		run.Suspended = state.ReasonAdopted
	}
	return run, c.enterSealed(ctx, t, run, &sub, nil)
}

// enterMissed records a run of which its site has nothing, and that may compute elsewhere: it waits for
// its ticket.
func (c *Controller) enterMissed(ctx context.Context, g goneRun, f Foreign) (state.Run, error) {
	known, lock, err := c.lockTicket(ctx, g.Run.ID)
	if err != nil || lock == nil {
		return known, err
	}
	defer lock.Unlock()
	why := g.missed()
	if known.ID != "" {
		known.Kind, known.Message, known.Remedy = why.Kind.String(), why.Error(), why.Remedy
		return known, c.Store.PutRun(ctx, known)
	}
	run, sub, err := c.sealed(ctx, g.Ticket, f, nil)
	if err != nil {
		return run, err
	}
	attempts, err := g.Closed()
	if err != nil {
		return run, err
	}
	run.Kind, run.Message, run.Remedy = why.Kind.String(), why.Error(), why.Remedy
	return run, c.enterSealed(ctx, g.Ticket, run, &sub, attempts)
}

// enterEnd records a run that has no attempt to adopt: it was over, or has failed for the reason
// why. One that is on record is left as it is, unless it waits there for its ticket.
func (c *Controller) enterEnd(ctx context.Context, t retention.Ticket, f Foreign, before map[string]bool, why *core.Error) (state.Run, error) {
	known, err := c.Store.Run(ctx, t.Run.ID)
	if err == nil && known.Suspended == state.ReasonTicket && why != nil {
		return c.endKnown(ctx, t.Run.ID, why)
	}
	if !core.IsKind(err, core.NotFound) {
		return known, err
	}
	run, sub, err := c.sealed(ctx, t, f, before)
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
	return run, c.enterSealed(ctx, t, run, &sub, attempts)
}

// endKnown records that a run on record here, which waits for its ticket, has failed.
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
