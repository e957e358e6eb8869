package submission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
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
	// Pack is how many cases share one lease; 0: each has its own.
	Pack int `json:"pack,omitempty"`
}

// Limited reports whether the case may have to wait for others.
func (c *ArrayCase) Limited() bool { return c != nil && c.AtOnce > 0 && c.Number > c.AtOnce }

// Full is why a case waits.
func (c *ArrayCase) Full() event.ArrayFull {
	return event.ArrayFull{Array: c.ID, Name: c.Name, AtOnce: c.AtOnce}
}

// SubmitArray records the runs of an array, all of them or none, and returns them in their
// order. No process controls them yet. Invalid: two cases would write the same outputs. Other
// errors are as for Submit.
func SubmitArray(ctx context.Context, store *state.Store, subs []Submission) ([]state.Run, error) {
	subs, found := slices.Clone(subs), foundOnce{store: store}
	for i := range subs {
		var err error
		if subs[i].After, err = found.dependencies(ctx, subs[i].Job.After); err != nil {
			return nil, err
		}
	}
	array, err := newRuns(subs, time.Now())
	if err == nil {
		err = recordReaders(ctx, store, []newJob{array}, nil)
	}
	if err != nil {
		return nil, err
	}
	return array.runs, nil
}

// foundOnce finds the runs of `after:` once for all cases that name the same.
type foundOnce struct {
	store *state.Store
	after []spec.After
	list  []Dependency
}

func (f *foundOnce) dependencies(ctx context.Context, after []spec.After) (list []Dependency, err error) {
	if len(after) > 0 && slices.Equal(after, f.after) {
		return f.list, nil
	}
	if list, err = dependencies(ctx, f.store, after); err == nil {
		f.after, f.list = after, list
	}
	return list, err
}

// apart refuses cases that would write the same outputs, of which the places are given, and
// returns the places with the index of the case that each is of.
func apart(op string, cases []Submission, places []spec.Places) (*spec.PlaceIndex, error) {
	taken := &spec.PlaceIndex{}
	for i := range cases {
		if k, to := taken.Find(places[i]); to != "" {
			return nil, &core.Error{
				Kind: core.Invalid, Op: op, Object: cases[i].Array.Name,
				Err:    fmt.Errorf("cases %d and %d may write the same outputs to %s", cases[k].Array.Number, cases[i].Array.Number, to),
				Remedy: "Name a value in `to:`, such as \"./results/${case.seed}\", or the run, as ${run.id}.",
			}
		}
		taken.Add(places[i], i)
	}
	return taken, nil
}

// opSubmitArray is the operation of SubmitArray in errors of a whole array.
const opSubmitArray = "submit array"
