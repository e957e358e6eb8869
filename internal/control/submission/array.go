package submission

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
	runs, placed, now := make([]state.Run, len(subs)), make([]Submission, len(subs)), time.Now()
	notified, found := false, foundOnce{store: store}
	for i := range subs {
		s := subs[i]
		place := *s.Array
		place.StopAt = place.OnFailure.Limit(len(subs))
		s.Array = &place
		var err error
		if s.After, err = found.dependencies(ctx, s.Job.After); err != nil {
			return nil, err
		}
		if s.Version = Version; s.Array.Pack > 0 {
			s.Version = packedVersion
		}
		raw, err := s.Encode()
		if err != nil {
			return nil, err
		}
		runs[i] = state.Run{
			ID: state.NewID(), Name: s.Job.Name, State: state.Queued, Created: now.Add(time.Duration(i)), Submission: raw, // their order is that of time
			Case: state.Case{Array: s.Array.ID, Name: s.Array.Name, Number: s.Array.Number, AtOnce: s.Array.AtOnce},
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
	own, err := apart(opSubmitArray, placed, places)
	if err != nil {
		return nil, err
	}
	first, all := "", runs // the former has the notifications of the whole
	if len(runs) > 0 {
		first = runs[0].ID
	}
	if len(subs) > 0 && subs[0].Array.Pack > 0 {
		packs, err := packsOf(runs, placed)
		if err != nil {
			return nil, err
		}
		first, all = packs[0].ID, slices.Concat(packs, runs)
	}
	if notified {
		if err := notify.Prepare(store, first); err != nil {
			return nil, err
		}
	}
	_, err = store.Write(ctx, state.Change{Cases: all, Admit: admitsArray(opSubmit, placed, own)})
	if err != nil {
		if notified {
			core.BestEffort(notify.Remove(store, first)) // else a later look does
		}
		return nil, err
	}
	return runs, nil
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

// admitsArray returns what refuses an array where outputs of a case would come where those of
// a run do that is not over; nil: no case has any. own are the places of the cases.
func admitsArray(op string, cases []Submission, own *spec.PlaceIndex) func(active []state.Run) error {
	if own.Empty() {
		return nil
	}
	return func(active []state.Run) error {
		others := beside(active)
		before := map[string]map[string]bool{} // runs that are over when a case begins, by what it waits for
		for _, run := range others.runs {
			i, _ := own.Find(others.places[run.ID])
			if i < 0 {
				continue
			}
			s := &cases[i]
			key := fmt.Sprint(s.After)
			if before[key] == nil {
				before[key] = s.before(others.submissions)
			}
			if !before[key][run.ID] {
				return errSamePlace(op, s.Job.Name, s.Job.Places().Collision(others.places[run.ID]), run)
			}
		}
		return nil
	}
}
