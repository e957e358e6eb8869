package submission

import (
	"context"
	"fmt"
	"maps"
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

// JobsPlacesFree is PlacesFree of runs with their submissions, all at once: of cases of arrays, and
// of others. Where they are on record, they count once. Invalid: two of them may write the same
// outputs at the same time.
func JobsPlacesFree(ctx context.Context, store *state.Store, op string, runs []state.Run, subs []Submission) error {
	jobs, places, own := []newJob{}, map[string]int{}, map[string]bool{}
	for i, run := range runs {
		s, id := subs[i], run.Job()
		at, is := places[id]
		if !is {
			at = len(jobs)
			places[id], jobs = at, append(jobs, newJob{})
		}
		job := &jobs[at]
		s.Job.Outputs = slices.Clone(s.Job.Outputs)
		s.placed(run.ID)
		own[run.ID] = true
		job.runs, job.subs, job.places = append(job.runs, run), append(job.subs, s), append(job.places, s.Job.Places())
	}
	before := make([]map[int]bool, len(jobs)) // those that each waits for are before it
	for i := range jobs {
		before[i] = map[int]bool{}
		for _, d := range jobs[i].subs[0].After {
			if at, is := places[d.Run]; is && at < i {
				before[i][at] = true
				maps.Copy(before[i], before[at])
			}
		}
		var err error
		if jobs[i].own, err = apart(op, jobs[i].subs, jobs[i].places); err != nil {
			return err
		}
	}
	if err := apartJobs(op, jobs, before); err != nil {
		return err
	}
	admit := admits(op, jobs)
	if admit == nil {
		return nil
	}
	active, err := store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return err
	}
	return admit(slices.DeleteFunc(active, func(r state.Run) bool { return own[r.ID] }))
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
