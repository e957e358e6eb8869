package control

import (
	"context"
	"fmt"
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

// admits returns what refuses a new run whose outputs would come where those of a run do
// that is not over. It is called in the transaction that records the new run.
func (s *Submission) admits(op, id string) func(active []state.Run) error {
	own := *s
	own.Job.Outputs = append([]spec.Output{}, s.Job.Outputs...)
	own.placed(id)
	if len(own.Job.Outputs) == 0 {
		return nil
	}
	return func(active []state.Run) error { return own.fits(op, active, submissionsOf(active)) }
}

// submissionsOf returns the submissions of runs by id, but those that no bee of this version
// carries out.
func submissionsOf(runs []state.Run) map[string]Submission {
	all := map[string]Submission{}
	for _, run := range runs {
		if sub, err := SubmissionOf(run); err == nil {
			all[run.ID] = sub
		}
	}
	return all
}

// fits refuses a new run beside active ones, whose submissions are given. Its outputs have
// its id.
func (s *Submission) fits(op string, active []state.Run, others map[string]Submission) error {
	before := s.before(others)
	for _, run := range active {
		other, known := others[run.ID]
		if !known || before[run.ID] {
			continue
		}
		if to := s.Job.Collision(&other.Job); to != "" {
			return errSamePlace(op, s.Job.Name, to, run)
		}
	}
	return nil
}

// placesFree is what admits finds now. Where it refuses a run, the user is not asked
// anything first.
func placesFree(ctx context.Context, store *state.Store, op string, s *Submission, id string) error {
	admit := s.admits(op, id)
	if admit == nil {
		return nil
	}
	active, err := store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return err
	}
	return admit(active)
}

// What makes a run, as its errors name it.
const (
	opSubmit   = "submit"
	opTakeOver = "take over run"
	opRestore  = "bring up virtual machines of"
)

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

// locate makes the job's relative outputs absolute, once its image is known.
func (d *drive) locate(image core.ImageConfig) (err error) {
	changed, err := d.sub.Job.OutputsIn(image.Workdir(d.sub.Job.Workdir, d.sub.Job.Volume.Path))
	if err != nil || !changed {
		return err
	}
	d.run.Submission, err = d.sub.encode()
	return err
}
