package submission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/notify"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Dependency is a run, or an array of runs, that has to end before another run begins.
type Dependency struct {
	Run  string `json:"run"` // its id
	Name string `json:"name"`
	On   string `json:"on"` // one of spec's After… words
	// Array: it is an array, which has succeeded when all of its cases have.
	Array bool `json:"array,omitempty"`
	// As is the word of the Beefile that means it; "": Name.
	As string `json:"as,omitempty"`
}

// meantBy reports whether a word of the Beefile means it.
func (d Dependency) meantBy(word string) bool { return cmp.Or(d.As, d.Name) == word }

func (d Dependency) what() string {
	if d.Array {
		return "array"
	}
	return "run"
}

// shownBy is the command that shows it.
func (d Dependency) shownBy() string {
	if d.Array {
		return "bee ps " + d.Run
	}
	return "bee show " + d.Run
}

// Look returns the state of the other one now, and when it ended.
func (d Dependency) Look(ctx context.Context, store *state.Store) (s state.RunState, ended time.Time, err error) {
	if !d.Array {
		run, err := store.Run(ctx, d.Run)
		return run.State, run.Ended, err
	}
	array, err := store.Arrays().Array(ctx, d.Run)
	if err == nil && array.ID == "" {
		err = &core.Error{Kind: core.NotFound, Op: "find array", Object: d.Run, Err: errors.New("no run is a case of it"), Remedy: "`bee ps -a` lists all runs."}
	}
	return array.State(), array.Ended, err
}

// Met reports whether a run in a state lets the other one begin.
func (d Dependency) Met(s state.RunState) bool {
	return s.Final() && (d.On == spec.AfterEnd || (s == state.Succeeded) == (d.On == spec.AfterSuccess))
}

// Never is why the other one can never begin.
func (d Dependency) Never(id, why string) error {
	return &core.Error{
		Kind: core.Permanent, Op: "begin run", Object: id, Err: fmt.Errorf("it was to begin after the %s of %s %s (%s), which %s", d.On, d.what(), d.Run, d.Name, why),
		Remedy: "See `" + d.shownBy() + "`. Once that is put right, submit both again.",
	}
}

// dependencies finds the runs that a job is to begin after.
func dependencies(ctx context.Context, store *state.Store, after []spec.After) ([]Dependency, error) {
	var list []Dependency
	for _, a := range after {
		d, err := FindDependency(ctx, store, a)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// FindDependency finds a run that a job is to begin after. A name means the run that it means
// now. NotFound: it means none. Invalid: it means several.
func FindDependency(ctx context.Context, store *state.Store, after spec.After) (Dependency, error) {
	d := Dependency{On: cmp.Or(after.On, spec.AfterSuccess)}
	array, err := store.Arrays().Find(ctx, after.Run, state.ToReach)
	if err != nil {
		return d, err
	}
	if array.ID != "" {
		d.Run, d.Name, d.Array = array.ID, array.Name, true
		if after.Run != d.Name {
			d.As = after.Run
		}
		return d, nil
	}
	run, err := store.FindRun(ctx, after.Run, state.ToReach)
	d.Run, d.Name = run.ID, run.Name
	if after.Run != d.Name {
		d.As = after.Run
	}
	return d, err
}

// before returns which of some runs are over when the run of a submission begins.
func (s *Submission) before(runs map[string]Submission) map[string]bool {
	over := map[string]bool{}
	for list := slices.Clone(s.After); len(list) > 0; list = list[1:] {
		for id, other := range runs {
			if list[0].means(id, other.arrayID()) && !over[id] {
				over[id] = true
				list = append(list, other.After...)
			}
		}
	}
	return over
}

// means reports whether the other one is a run, or its array; "": it is in none.
func (d Dependency) means(id, array string) bool {
	if d.Array {
		return array == d.Run
	}
	return id == d.Run
}

// NeverBegan returns those of some runs that could not begin by how others of them ended: each of
// these counts for both where it failed, and else nothing has failed.
func NeverBegan(ctx context.Context, store *state.Store, runs []state.Run) (map[string]bool, error) {
	ended, arrays := map[string]state.RunState{}, map[string]bool{}
	for _, run := range runs {
		ended[run.ID] = run.State
		if run.Case.Array != "" {
			arrays[run.Case.Array] = true
		}
	}
	otherwise := func(d Dependency) (bool, error) { // whether it ended so that no run begins after it
		now, known := ended[d.Run]
		if !known && d.Array && arrays[d.Run] {
			var err error
			if now, _, err = d.Look(ctx, store); core.IsKind(err, core.NotFound) { // it was removed
				return false, nil
			} else if err != nil {
				return false, err
			}
			ended[d.Run] = now
		}
		return now.Final() && !d.Met(now), nil
	}
	never := map[string]bool{}
	for _, run := range runs {
		if run.State != state.Failed || run.ExitCode != nil {
			continue
		}
		sub, err := Of(run)
		if err != nil { // of another version: it counts
			continue
		}
		for _, d := range sub.After {
			is, err := otherwise(d)
			if err != nil {
				return nil, err
			}
			if is {
				never[run.ID] = true
				break
			}
		}
	}
	return never, nil
}

// Waits are what jobs wait for, by the ids of runs, and of arrays.
type Waits map[string][]Dependency

// WaitsOf returns what some runs wait for, of which the cases of an array wait for the same.
func WaitsOf(runs []state.Run) Waits {
	waits := Waits{}
	for _, run := range runs {
		id := run.Job()
		if _, known := waits[id]; known {
			continue
		}
		sub, err := Of(run)
		if err != nil { // of another version
			sub = Submission{}
		}
		waits[id] = sub.After
	}
	return waits
}

// Settled reports whether each of some runs is over, needs its user, or waits for one that does. now are
// all of them as they are.
func (w Waits) Settled(now []state.Run) bool {
	open, needsUser := map[string]bool{}, map[string]bool{}
	for _, run := range now {
		id := run.Job()
		needsUser[id] = needsUser[id] || run.State.Resumable()
		open[id] = open[id] || !run.State.Final() && !run.State.Resumable()
	}
	for more := true; more; { // in each round, those that wait for what was found in the one before
		more = false
		for id := range open {
			if open[id] && slices.ContainsFunc(w[id], func(d Dependency) bool { return needsUser[d.Run] }) {
				more, open[id], needsUser[id] = true, false, true
			}
		}
	}
	return !slices.Contains(slices.Collect(maps.Values(open)), true)
}

// NeededBy returns a run that has not begun, and waits for the end of another one or of its
// array, or one that is not over and has an input of its volume; "": none. The first case of an
// array is needed until the end of that is notified.
func NeededBy(ctx context.Context, store *state.Store, id string) (string, error) {
	if reader, err := AReaderOf(ctx, store, id, ""); err != nil || reader != "" {
		return reader, err
	}
	if notify.Has(store, id) {
		live, err := store.Arrays().Beside(ctx, id, true)
		if err != nil {
			return "", err
		}
		if len(live) > 0 {
			return live[0], nil
		}
	}
	own, err := store.Run(ctx, id)
	if err != nil && !core.IsKind(err, core.NotFound) {
		return "", err
	}
	runs, err := store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return "", err
	}
	for _, run := range runs {
		sub, err := Of(run)
		if err != nil || !slices.ContainsFunc(sub.After, func(d Dependency) bool { return d.means(id, own.Case.Array) }) {
			continue
		}
		attempts, err := store.Attempts(ctx, run.ID)
		if err != nil {
			return "", err
		}
		if len(attempts) == 0 {
			return run.ID, nil
		}
	}
	return "", nil
}
