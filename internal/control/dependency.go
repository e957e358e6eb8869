package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Dependency is a run that has to end before another one begins.
type Dependency struct {
	Run  string `json:"run"` // its id
	Name string `json:"name"`
	On   string `json:"on"` // one of spec's After… words
}

// met reports whether a run in a state lets the other one begin.
func (d Dependency) met(s state.RunState) bool {
	return s.Final() && (d.On == spec.AfterEnd || (s == state.Succeeded) == (d.On == spec.AfterSuccess))
}

// never is why the other one can never begin.
func (d Dependency) never(id, why string) error {
	return &core.Error{
		Kind: core.Permanent, Op: "begin run", Object: id, Err: fmt.Errorf("it was to begin after the %s of run %s (%s), which %s", d.On, d.Run, d.Name, why),
		Remedy: "See `bee show " + d.Run + "`. Once that is put right, submit both again.",
	}
}

// dependencies finds the runs that a job is to begin after. A name means the run that it
// means now.
func dependencies(ctx context.Context, store *state.Store, after []spec.After) ([]Dependency, error) {
	var list []Dependency
	for _, a := range after {
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
		id := list[0].Run
		if other, known := runs[id]; known && !over[id] {
			over[id] = true
			list = append(list, other.After...)
		}
	}
	return over
}

// How often the runs are looked at that another one waits for, at first and later.
const (
	firstLookAtDependencies   = 100 * time.Millisecond
	longestLookAtDependencies = 2 * time.Second
)

// awaitDependencies waits until the runs have ended that the run is to begin after. Where it
// cannot begin, out is its end.
func awaitDependencies(ctx context.Context, d *drive) (out outcome, begins bool, err error) {
	if len(d.sub.After) == 0 {
		return outcome{}, true, nil
	}
	work, cancel := d.untilStop(ctx)
	defer cancel()
	for pause := firstLookAtDependencies; ; pause = min(2*pause, longestLookAtDependencies) {
		waits, err := dependency(work, d)
		switch {
		case d.stopAsked():
			return outcome{state: state.Stopped, err: errStopped()}, false, nil
		case ctx.Err() != nil:
			return outcome{}, false, context.Cause(ctx)
		case core.IsKind(err, core.Permanent):
			return outcome{state: state.Failed, err: err}, false, nil
		case err != nil:
			return outcome{}, false, err
		case waits == nil:
			return outcome{}, true, nil
		}
		d.recordLast(ctx, event.Dependency{Other: waits.Run, Name: waits.Name, On: waits.On})
		core.Sleep(work, pause) //nolint:errcheck // why it ends is looked at next
	}
}

// dependency returns the first run that has not ended; nil: the run may begin. An error of
// kind Permanent means that it never can.
func dependency(ctx context.Context, d *drive) (waits *Dependency, err error) {
	for i := range d.sub.After {
		dep := &d.sub.After[i]
		run, err := d.c.Store.Run(ctx, dep.Run)
		switch {
		case core.IsKind(err, core.NotFound):
			return nil, dep.never(d.run.ID, "was removed")
		case err != nil:
			return nil, err
		case !run.State.Final():
			waits = cmp.Or(waits, dep)
			continue
		case !dep.met(run.State):
			return nil, dep.never(d.run.ID, string(run.State))
		}
		if run.Ended.After(d.asked) { // since then it asks for a site
			d.asked = run.Ended
		}
	}
	if now := time.Now(); d.asked.After(now) {
		d.asked = now
	}
	return waits, nil
}

// neededBy returns a run that has not begun, and waits for the end of another one; "": none.
func neededBy(ctx context.Context, store *state.Store, id string) (string, error) {
	runs, err := store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return "", err
	}
	for _, run := range runs {
		sub, err := SubmissionOf(run)
		if err != nil || !slices.ContainsFunc(sub.After, func(d Dependency) bool { return d.Run == id }) {
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
