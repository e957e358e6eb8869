package submission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// placed puts the run's id into the places of its outputs.
func (s *Submission) placed(run string) {
	for i, o := range s.Job.Outputs {
		s.Job.Outputs[i].To = strings.ReplaceAll(o.To, spec.RunID, run)
	}
}

// Admits returns what refuses a new run whose outputs would come where those of a run do
// that is not over. It is called in the transaction that records the new run.
func (s *Submission) Admits(op, id string) func(active []state.Run) error {
	own := *s
	own.Job.Outputs = append([]spec.Output{}, s.Job.Outputs...)
	own.placed(id)
	if len(own.Job.Outputs) == 0 {
		return nil
	}
	return func(active []state.Run) error { return beside(active).admit(op, &own, own.Job.Places()) }
}

// activeRuns are runs that are not over, with their submissions and the places of their
// outputs by id, but those that no bee of this version carries out.
type activeRuns struct {
	runs        []state.Run
	submissions map[string]Submission
	places      map[string]spec.Places
}

// beside reads runs that are not over, beside which new ones are to begin.
func beside(runs []state.Run) activeRuns {
	a := activeRuns{runs, map[string]Submission{}, map[string]spec.Places{}}
	for _, run := range runs {
		if sub, err := Of(run); err == nil {
			a.submissions[run.ID], a.places[run.ID] = sub, sub.Job.Places()
		}
	}
	return a
}

// admit refuses a new run. The places of its outputs have its id.
func (a activeRuns) admit(op string, s *Submission, places spec.Places) error {
	before := s.before(a.submissions)
	for _, run := range a.runs {
		if before[run.ID] {
			continue
		}
		if to := places.Collision(a.places[run.ID]); to != "" {
			return errSamePlace(op, s.Job.Name, to, run)
		}
	}
	return nil
}

// PlacesFree is what admits finds now. Where it refuses a run, the user is not asked
// anything first.
func PlacesFree(ctx context.Context, store *state.Store, op string, s *Submission, id string) error {
	admit := s.Admits(op, id)
	if admit == nil {
		return nil
	}
	active, err := store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return err
	}
	return admit(active)
}

// CasesPlacesFree is PlacesFree of cases of one array, by the ids of their runs, all at once. Runs of
// that array are these cases, and not others. Invalid: two cases would write the same outputs.
func CasesPlacesFree(ctx context.Context, store *state.Store, op string, cases []Submission, ids []string) error {
	placed, places := make([]Submission, len(cases)), make([]spec.Places, len(cases))
	for i, s := range cases {
		s.Job.Outputs = append([]spec.Output{}, s.Job.Outputs...)
		s.placed(ids[i])
		placed[i], places[i] = s, s.Job.Places()
	}
	own, err := apart(op, placed, places)
	if err != nil || own.Empty() {
		return err
	}
	active, err := store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return err
	}
	array := placed[0].arrayID()
	active = slices.DeleteFunc(active, func(r state.Run) bool { return r.Case.Array == array })
	others := beside(active)
	return newJob{subs: placed, own: own}.admit(op, others, others.submissions)
}

func errSamePlace(op, job, to string, run state.Run) error {
	remedy := "Wait for the other run with `bee logs -f " + run.ID + "`, or end it with `bee stop " + run.ID + "`."
	if op == opSubmit {
		remedy = "Write `to: \"…/${run.id}\"` for a directory of each run's own. Or w" + remedy[1:]
	}
	return &core.Error{
		Kind: core.Busy, Op: op, Object: job,
		Err:    fmt.Errorf("run %s, which is %s, may write the same outputs to %s", run.ID, run.State, to),
		Remedy: remedy,
	}
}
