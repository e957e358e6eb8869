package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// allowedOnce checks the jobs of tickets, and asks the user once for all of what they do outside
// of the directory of f. The Foreign that it returns allows that. notified are the runs that send the
// notifications of their jobs. Busy: a run that is not over may write the same outputs as one of them.
func (c *Controller) allowedOnce(ctx context.Context, tickets []retention.Ticket, f Foreign) (once Foreign, notified []string, err error) {
	if err := c.ownRuns(ctx, tickets); err != nil {
		return f, nil, err
	}
	sites, err := f.Sites(nil) // the file is read once
	if err != nil {
		return f, nil, err
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
	var runs []state.Run
	var subs []submission.Submission
	before, first := map[string]bool{}, map[string]state.Run{}
	for _, t := range tickets {
		run, sub, err := c.sealed(ctx, t, look, before)
		if err != nil {
			return f, nil, err
		}
		before[t.Job()] = t.Run.Case.Array != ""
		if one, is := first[t.Job()]; len(sub.Job.Notify) > 0 && (!is || run.Case.Number < one.Case.Number) {
			first[t.Job()] = run
		}
		if !t.Over() {
			runs, subs = append(runs, run), append(subs, sub)
		}
	}
	for _, run := range first {
		notified = append(notified, run.ID)
	}
	slices.Sort(notified)
	if err := submission.JobsPlacesFree(ctx, c.Store, opAdoptRuns, runs, subs); err != nil {
		return f, nil, err
	}
	once = f
	once.Allow = func([]spec.Reach) error { return nil }
	if err := f.Allow(all); err != nil {
		return f, nil, err
	}
	return once, notified, c.inputsHere(ctx, tickets, runs, subs)
}

// ownRuns refuses the ticket of several runs that would add cases to an array that is another one
// here, or change another run.
func (c *Controller) ownRuns(ctx context.Context, tickets []retention.Ticket) error {
	wrong := func(id string) error {
		return &core.Error{
			Kind: core.Invalid, Op: opAdopt, Object: id, Err: errors.New("an array or a run of that id is on record here, and the ticket is not of it"),
			Remedy: "The ticket is not one of yours: do not use it.",
		}
	}
	cases, arrays := make(map[string]state.Case, len(tickets)), map[string]bool{}
	for _, t := range tickets {
		cases[t.Run.ID] = t.Run.Case
		if t.Run.Case.Array != "" {
			arrays[t.Run.Case.Array] = true
		}
	}
	for array := range arrays {
		known, err := c.Store.Arrays().Runs(ctx, array)
		if err != nil {
			return err
		}
		for _, run := range known {
			if cases[run.ID].Number != run.Case.Number {
				return wrong(array)
			}
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
		if run.Case.Array != t.Run.Case.Array {
			return wrong(run.ID)
		}
		if err := ofTicket(run); err != nil {
			return err
		}
	}
	return nil
}

// inputsHere refuses to adopt runs that wait for others where what they take from this machine is
// not here, and no run that is adopted makes it.
func (c *Controller) inputsHere(ctx context.Context, tickets []retention.Ticket, runs []state.Run, subs []submission.Submission) error {
	waits := map[string]retention.Ticket{}
	for _, t := range tickets {
		if !t.Waits() {
			continue
		}
		if _, err := c.Store.Run(ctx, t.Run.ID); core.IsKind(err, core.NotFound) { // else its inputs were looked at
			waits[t.Run.ID] = t
		} else if err != nil {
			return err
		}
	}
	made := spec.MadeFiles{}
	for i, run := range runs {
		for _, o := range subs[i].Job.Outputs {
			made.Add(strings.ReplaceAll(o.To, spec.RunID, run.ID))
		}
	}
	for i, run := range runs {
		t, is := waits[run.ID]
		if !is {
			continue
		}
		if path := subs[i].Job.NotHere(made); path != "" {
			return &core.Error{
				Kind: core.NotFound, Op: opAdopt, Object: run.ID, Err: fmt.Errorf("job %s has not begun, and takes %s, which is not on this machine; no run that is adopted makes it", run.Name, path),
				Remedy: fmt.Sprintf("Copy it here from %q, and give the ticket again.", retention.Plain(t.Machine)),
			}
		}
	}
	return nil
}

// afterOf returns what the run of a ticket waits for: jobs before it in the same ticket, which are
// true for arrays.
func afterOf(t retention.Ticket, after []submission.Dependency, before map[string]bool) ([]submission.Dependency, error) {
	if before == nil {
		return nil, nil
	}
	if t.Waits() && len(after) == 0 || len(after) > mostAfter {
		return nil, retention.ForeignError(t.Run.ID, fmt.Errorf("it has not begun, and waits for %d runs", len(after)))
	}
	kept := make([]submission.Dependency, len(after))
	for i, d := range after {
		array, is := before[d.Run]
		if !is || array != d.Array || !slices.Contains([]string{spec.AfterSuccess, spec.AfterFailure, spec.AfterEnd}, d.On) {
			return nil, retention.ForeignError(t.Run.ID, fmt.Errorf("it waits for %q, which is not in the ticket before it", core.Printable(d.Run, 80)))
		}
		kept[i] = submission.Dependency{Run: d.Run, Name: retention.Plain(d.Name), On: d.On, Array: array}
	}
	return kept, nil
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
	kept := &submission.ArrayCase{ID: of.Array, Name: of.Name, Number: of.Number, Of: place.Of, AtOnce: of.AtOnce, Values: spec.Case{}}
	if t.Waits() { // else the others have begun, too
		kept.OnFailure.At, kept.StopAt = retention.Plain(place.OnFailure.At), max(place.StopAt, 0)
	}
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

// mostAfter bounds the runs for which one of a ticket waits.
const mostAfter = 1000
