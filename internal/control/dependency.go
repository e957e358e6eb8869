package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/notify"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Dependency is a run, or an array of runs, that has to end before another run begins.
type Dependency struct {
	Run  string `json:"run"` // its id
	Name string `json:"name"`
	On   string `json:"on"` // one of spec's After… words
	// Array: it is an array, which has succeeded when all of its cases have.
	Array bool `json:"array,omitempty"`
}

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

// look returns the state of the other one now, and when it ended.
func (d Dependency) look(ctx context.Context, store *state.Store) (s state.RunState, ended time.Time, err error) {
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

// met reports whether a run in a state lets the other one begin.
func (d Dependency) met(s state.RunState) bool {
	return s.Final() && (d.On == spec.AfterEnd || (s == state.Succeeded) == (d.On == spec.AfterSuccess))
}

// never is why the other one can never begin.
func (d Dependency) never(id, why string) error {
	return &core.Error{
		Kind: core.Permanent, Op: "begin run", Object: id, Err: fmt.Errorf("it was to begin after the %s of %s %s (%s), which %s", d.On, d.what(), d.Run, d.Name, why),
		Remedy: "See `" + d.shownBy() + "`. Once that is put right, submit both again.",
	}
}

// dependencies finds the runs that a job is to begin after. A name means the run that it
// means now.
func dependencies(ctx context.Context, store *state.Store, after []spec.After) ([]Dependency, error) {
	var list []Dependency
	for _, a := range after {
		array, err := store.Arrays().Find(ctx, a.Run, state.ToReach)
		if err != nil {
			return nil, err
		}
		if array.ID != "" {
			list = append(list, Dependency{Run: array.ID, Name: array.Name, On: cmp.Or(a.On, spec.AfterSuccess), Array: true})
			continue
		}
		run, err := store.FindRun(ctx, a.Run, state.ToReach)
		if err != nil {
			return nil, err
		}
		list = append(list, Dependency{Run: run.ID, Name: run.Name, On: cmp.Or(a.On, spec.AfterSuccess)})
	}
	return list, nil
}

// before returns which of some runs are over when the run of a submission begins.
func (s *Submission) before(runs map[string]Submission) map[string]bool {
	over := map[string]bool{}
	for list := slices.Clone(s.After); len(list) > 0; list = list[1:] {
		for id, other := range runs {
			if list[0].means(id, other.Array) && !over[id] {
				over[id] = true
				list = append(list, other.After...)
			}
		}
	}
	return over
}

// means reports whether the other one is a run, or the array of a run.
func (d Dependency) means(id string, array *ArrayCase) bool {
	if d.Array {
		return array != nil && array.ID == d.Run
	}
	return id == d.Run
}

// How often the runs are looked at that another one waits for, at first and later.
const (
	firstLookAtDependencies   = 100 * time.Millisecond
	longestLookAtDependencies = 2 * time.Second
)

// awaitDependencies waits until the runs have ended that the run is to begin after. Where it
// cannot begin, out is its end.
func awaitDependencies(ctx context.Context, d *drive) (out outcome, begins bool, err error) {
	if len(d.sub.After) == 0 && !d.sub.Array.limited() {
		return outcome{}, true, nil
	}
	work, cancel := d.untilStop(ctx)
	defer cancel()
	for pause := firstLookAtDependencies; ; pause = min(2*pause, longestLookAtDependencies) {
		waits, err := dependency(work, d)
		turn := true
		if err == nil && waits == nil {
			turn, err = d.sub.Array.turn(work, d)
		}
		stopped := false
		if err == nil && turn { // it is read after what may have given it the turn
			stopped, err = d.sub.Array.stopped(work, d)
		}
		switch {
		case d.stopAsked() || stopped:
			return outcome{state: state.Stopped, err: errStopped()}, false, nil
		case ctx.Err() != nil:
			return outcome{}, false, context.Cause(ctx)
		case core.IsKind(err, core.Permanent):
			return outcome{state: state.Failed, err: err}, false, nil
		case err != nil:
			return outcome{}, false, err
		case waits == nil && turn:
			return outcome{}, true, nil
		case waits == nil:
			d.recordLast(ctx, d.sub.Array.full())
		default:
			d.recordLast(ctx, event.Dependency{Other: waits.Run, Name: waits.Name, On: waits.On, Array: waits.Array})
		}
		core.Pause(work, pause) // why it ends is looked at next
	}
}

// dependency returns the first run that has not ended; nil: the run may begin. An error of
// kind Permanent means that it never can.
func dependency(ctx context.Context, d *drive) (waits *Dependency, err error) {
	for i := range d.sub.After {
		dep := &d.sub.After[i]
		other, ended, err := dep.look(ctx, d.c.Store)
		switch {
		case core.IsKind(err, core.NotFound):
			return nil, dep.never(d.run.ID, "was removed")
		case err != nil:
			return nil, err
		case !other.Final():
			waits = cmp.Or(waits, dep)
			continue
		case !dep.met(other):
			return nil, dep.never(d.run.ID, string(other))
		}
		if ended.After(d.asked) { // since then it asks for a site
			d.asked = ended
		}
	}
	if now := time.Now(); d.asked.After(now) {
		d.asked = now
	}
	return waits, nil
}

// neededBy returns a run that has not begun, and waits for the end of another one or of its
// array; "": none. The first case of an array is needed until the end of that is notified.
func neededBy(ctx context.Context, store *state.Store, id string) (string, error) {
	if notify.Has(store, id) {
		if live, err := store.Arrays().Beside(ctx, id, true); err != nil || len(live) > 0 {
			return slices.Concat(live, []string{""})[0], err
		}
	}
	own, err := store.Run(ctx, id)
	if err != nil && !core.IsKind(err, core.NotFound) {
		return "", err
	}
	var array *ArrayCase
	if own.Case.Array != "" {
		array = &ArrayCase{ID: own.Case.Array}
	}
	runs, err := store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return "", err
	}
	for _, run := range runs {
		sub, err := SubmissionOf(run)
		if err != nil || !slices.ContainsFunc(sub.After, func(d Dependency) bool { return d.means(id, array) }) {
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
