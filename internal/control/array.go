package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/notify"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// ArrayCase is the place of a run in an array.
type ArrayCase struct {
	ID     string `json:"id"` // the array's
	Name   string `json:"name"`
	Number int    `json:"case"` // from 1
	Of     int    `json:"of"`   // cases of the Beefile
	// AtOnce is how many cases run at the same time; 0: all.
	AtOnce int `json:"at_once,omitempty"`
	// OnFailure is when cases are stopped that have not begun, and StopAt with how many
	// failed ones of those that were submitted together; 0: never.
	OnFailure spec.OnFailure `json:"on_failure,omitzero"`
	StopAt    int            `json:"stop_at,omitempty"`
	Values    spec.Case      `json:"values"`
}

// limited reports whether the case may have to wait for others.
func (c *ArrayCase) limited() bool { return c != nil && c.AtOnce > 0 && c.Number > c.AtOnce }

// turn reports whether a case may begin. It depends on records alone, so that any number of
// controllers, also after a crash, begin no more cases than may run at once: of those that
// run, the last one has counted all others.
func (c *ArrayCase) turn(ctx context.Context, d *drive) (bool, error) {
	if !c.limited() {
		return true, nil
	}
	is, since, err := d.c.Store.Arrays().Turn(ctx, d.run.Case, c.AtOnce)
	if now := time.Now(); since.After(now) { // a clock that was put back
		since = now
	}
	if is && since.After(d.asked) { // since then it asks for a site
		d.asked = since
	}
	return is, err
}

// stopped reports whether an array has asked the case to stop, of which others have failed. A
// case whose turn has come by their end reads it here, before its supervisor has looked.
func (c *ArrayCase) stopped(ctx context.Context, d *drive) (bool, error) {
	if c == nil || c.StopAt == 0 {
		return false, nil
	}
	r, err := d.c.Store.Requests().Open(ctx, d.run.ID, state.RequestStop)
	return r != nil, err
}

// arrayStopped is why a case has not begun that its array has stopped; nil: it has not.
func arrayStopped(ctx context.Context, store *state.Store, run state.Run) error {
	requests, err := store.Requests().Of(ctx, run.ID)
	if err != nil || !slices.ContainsFunc(requests, func(r state.Request) bool { return r.OfArray() }) {
		return nil // what the run ends with is on record without it
	}
	return &core.Error{
		Kind: core.Stopped, Op: "begin run", Object: run.ID, Err: fmt.Errorf("its array %s (%s) was stopped, as other cases have failed", run.Case.Array, run.Case.Name),
		Remedy: "`bee ps " + run.Case.Array + " --state failed` lists them. `bee retry " + run.Case.Array + "` runs them and this one again.",
	}
}

// endOfCase completes the record of a case that ends: where too many have failed by it, those
// that have not begun are asked to stop in the same transaction.
func endOfCase(ctx context.Context, store *state.Store, run *state.Run, change *state.Change) {
	if run.Case.Array == "" {
		return
	}
	sub, err := SubmissionOf(*run)
	if err != nil || sub.Array == nil || sub.Array.StopAt == 0 {
		return
	}
	switch run.State {
	case state.Failed:
		change.StopArrayAt = sub.Array.StopAt
	case state.Stopped:
		if why := arrayStopped(ctx, store, *run); why != nil {
			run.Message, run.Remedy = why.Error(), core.Remedy(why)
		}
	}
}

// full is why a case waits.
func (c *ArrayCase) full() event.ArrayFull {
	return event.ArrayFull{Array: c.ID, Name: c.Name, AtOnce: c.AtOnce}
}

// SubmitArray records the runs of an array, all of them or none, and returns them in their
// order. No process controls them yet. Invalid: two cases would write the same outputs. Other
// errors are as for Submit.
func SubmitArray(ctx context.Context, c *Controller, subs []Submission) ([]state.Run, error) {
	runs, placed, now := make([]state.Run, len(subs)), make([]Submission, len(subs)), time.Now()
	notified := false
	for i := range subs {
		s := subs[i]
		place := *s.Array
		place.StopAt = place.OnFailure.Limit(len(subs))
		s.Array = &place
		var err error
		if s.After, err = dependencies(ctx, c.Store, s.Job.After); err != nil {
			return nil, err
		}
		s.Version = submissionVersion
		raw, err := s.encode()
		if err != nil {
			return nil, err
		}
		runs[i] = state.Run{
			ID: state.NewID(), Name: s.Job.Name, State: state.Queued, Created: now.Add(time.Duration(i)), Submission: raw, // their order is that of time
			Case: state.Case{Array: s.Array.ID, Name: s.Array.Name, Number: s.Array.Number},
		}
		s.Job.Outputs = append([]spec.Output{}, s.Job.Outputs...)
		s.placed(runs[i].ID)
		placed[i] = s
		notified = notified || len(s.Notify)+len(s.Job.Notify) > 0
	}
	places := make([]spec.Places, len(placed))
	for i := range placed {
		places[i] = placed[i].Job.Places()
	}
	if err := apart(placed, places); err != nil {
		return nil, err
	}
	if len(runs) > 0 && notified { // of the whole
		if err := notify.Prepare(c.Store, runs[0].ID); err != nil {
			return nil, err
		}
	}
	_, err := c.Store.Write(ctx, state.Change{Cases: runs, Admit: func(active []state.Run) error {
		others := beside(active)
		for i := range placed {
			if err := others.admit(opSubmit, &placed[i], places[i]); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		if notified {
			core.BestEffort(notify.Remove(c.Store, runs[0].ID)) // else a later look does
		}
		return nil, err
	}
	return runs, nil
}

// apart refuses cases that would write the same outputs, of which the places are given.
func apart(cases []Submission, places []spec.Places) error {
	for i := range cases {
		for k := range i {
			to := places[i].Collision(places[k])
			if to == "" {
				continue
			}
			return &core.Error{
				Kind: core.Invalid, Op: "submit array", Object: cases[i].Array.Name,
				Err:    fmt.Errorf("cases %d and %d may write the same outputs to %s", cases[k].Array.Number, cases[i].Array.Number, to),
				Remedy: "Name a value in `to:`, such as \"./results/${case.seed}\", or the run, as ${run.id}.",
			}
		}
	}
	return nil
}
