package submission

import (
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

// Job is one of several that are submitted together: a run, or an array of runs.
type Job struct {
	// Runs has the submission of its run, or those of the cases of its array.
	Runs []Submission
	// After are the runs on record that it begins after, and Links those of the jobs beside it.
	After []Dependency
	Links []Link
}

// Link is a job that has to end before another one begins, with which it is submitted.
type Link struct {
	// Job is its place among them.
	Job int
	On  string // one of spec's After… words
}

// opSubmitJobs is the operation of SubmitJobs in its errors.
const opSubmitJobs = "submit jobs"

// mostRuns bounds the runs of jobs that are submitted together.
const mostRuns = 100_000

// SubmitJobs records the runs of several jobs, all of them or none, and returns them job by
// job. No process controls them yet. A job that waits for others is newer than these. Invalid:
// jobs wait for each other in a circle, or two would write the same outputs at the same time.
// Busy: so would a run that is not over.
func SubmitJobs(ctx context.Context, store *state.Store, jobs []Job) ([][]state.Run, error) {
	return SubmitJobsUnless(ctx, store, jobs, nil)
}

// SubmitJobsUnless is SubmitJobs, where refuse may refuse the jobs because of the runs that are not
// over, in the transaction that records them; nil: it does not.
func SubmitJobsUnless(ctx context.Context, store *state.Store, jobs []Job, refuse func(active []state.Run) error) ([][]state.Run, error) {
	order, before, err := orderOf(jobs)
	if err != nil {
		return nil, err
	}
	total, created, together := 0, time.Now(), state.NewID()
	made := make([]newJob, len(jobs))
	for _, i := range order {
		job := &jobs[i]
		if total += len(job.Runs); total > mostRuns {
			return nil, &core.Error{Kind: core.Invalid, Op: opSubmitJobs, Object: job.Runs[0].Job.Name, Err: fmt.Errorf("together they have more than %d runs", mostRuns), Remedy: "Submit them one after the other."}
		}
		after := slices.Clone(job.After)
		for _, l := range job.Links {
			after = append(after, made[l.Job].dependency(l.On))
		}
		subs := slices.Clone(job.Runs)
		for k := range subs {
			subs[k].After, subs[k].Together = after, together
		}
		if made[i], err = newRuns(subs, created); err != nil {
			return nil, err
		}
		created = created.Add(time.Duration(len(subs))) // their order is that of time
	}
	if err := apartJobs(opSubmitJobs, made, before); err != nil {
		return nil, err
	}
	if err := recordReaders(ctx, store, made, refuse); err != nil {
		return nil, err
	}
	runs := make([][]state.Run, len(made))
	for i, job := range made {
		runs[i] = job.runs
	}
	return runs, nil
}

// orderOf returns the places of jobs, each after those that it waits for, and which are over
// when it begins.
func orderOf(jobs []Job) (order []int, before []map[int]bool, err error) {
	begun := make([]bool, len(jobs))
	before = make([]map[int]bool, len(jobs))
	var visit func(i int) error
	visit = func(i int) error {
		if before[i] != nil {
			return nil
		}
		if begun[i] {
			return &core.Error{Kind: core.Invalid, Op: opSubmitJobs, Object: jobs[i].Runs[0].Job.Name, Err: errors.New("it waits for itself, in a circle"), Remedy: "Leave out an element of `after:`."}
		}
		begun[i] = true
		over := map[int]bool{}
		for _, l := range jobs[i].Links {
			if err := visit(l.Job); err != nil {
				return err
			}
			over[l.Job] = true
			maps.Copy(over, before[l.Job])
		}
		before[i], order = over, append(order, i)
		return nil
	}
	for i := range jobs {
		if err := visit(i); err != nil {
			return nil, nil, err
		}
	}
	return order, before, nil
}

// newJob is a job of which nothing is on record yet.
type newJob struct {
	// runs is its run, or are the cases of its array, and packs the runs whose leases these share.
	runs, packs []state.Run
	// subs are the submissions of the runs, with their ids in the places of outputs, which own and
	// places have.
	subs   []Submission
	places []spec.Places
	own    *spec.PlaceIndex
}

// newRuns makes the runs of a job: one, or those of the cases of an array. Invalid: two of them
// would write the same outputs.
func newRuns(subs []Submission, created time.Time) (newJob, error) {
	job := newJob{runs: make([]state.Run, len(subs)), subs: make([]Submission, len(subs)), places: make([]spec.Places, len(subs))}
	for i := range subs {
		s := subs[i]
		run := state.Run{ID: state.NewID(), Name: s.Job.Name, State: state.Queued, Created: created.Add(time.Duration(i))}
		s.Version = Version
		if s.Array != nil {
			place := *s.Array
			place.StopAt = place.OnFailure.Limit(len(subs))
			s.Array = &place
			run.Case = state.Case{Array: place.ID, Name: place.Name, Number: place.Number, AtOnce: place.AtOnce}
			if place.Pack > 0 {
				s.Version = packedVersion
			}
		}
		var err error
		if run.Submission, err = s.Encode(); err != nil {
			return job, err
		}
		s.Job.Outputs = slices.Clone(s.Job.Outputs)
		s.placed(run.ID)
		job.runs[i], job.subs[i], job.places[i] = run, s, s.Job.Places()
	}
	var err error
	if job.own, err = apart(opSubmitArray, job.subs, job.places); err != nil {
		return job, err
	}
	if len(subs) > 0 && subs[0].Array != nil && subs[0].Array.Pack > 0 {
		job.packs, err = packsOf(job.runs, job.subs)
	}
	return job, err
}

// dependency returns the job as one that another begins after.
func (j newJob) dependency(on string) Dependency {
	if of := j.subs[0].Array; of != nil {
		return Dependency{Run: of.ID, Name: of.Name, On: on, Array: true}
	}
	return Dependency{Run: j.runs[0].ID, Name: j.runs[0].Name, On: on}
}

// notified returns the run that has the notifications of the whole; "": there are no receivers.
func (j newJob) notified() string {
	if !slices.ContainsFunc(j.subs, func(s Submission) bool { return len(s.Notify)+len(s.Job.Notify) > 0 }) {
		return ""
	}
	if len(j.packs) > 0 {
		return j.packs[0].ID
	}
	return j.runs[0].ID
}

// record records the runs of new jobs, all of them or none, unless refuse refuses them.
func record(ctx context.Context, store *state.Store, jobs []newJob, refuse func(active []state.Run) error) error {
	var all []state.Run
	var notified []string
	for _, job := range jobs {
		all = append(append(all, job.packs...), job.runs...)
		if id := job.notified(); id != "" {
			notified = append(notified, id)
		}
	}
	admit := admits(opSubmit, jobs)
	if places := admit; refuse != nil {
		admit = func(active []state.Run) error {
			if err := refuse(active); err != nil || places == nil {
				return err
			}
			return places(active)
		}
	}
	var err error
	for i := 0; i < len(notified) && err == nil; i++ {
		err = notify.Prepare(store, notified[i])
	}
	if err == nil {
		_, err = store.Write(ctx, state.Change{New: all, Admit: admit})
	}
	if err != nil {
		for _, id := range notified {
			core.BestEffort(notify.Remove(store, id)) // else a later look does
		}
	}
	return err
}

// apartJobs refuses jobs of which two may write the same outputs, unless one is over when the
// other begins.
func apartJobs(op string, jobs []newJob, before []map[int]bool) error {
	for i := range jobs {
		if jobs[i].own.Empty() {
			continue
		}
		for k := range jobs {
			if k == i || before[i][k] || before[k][i] {
				continue
			}
			for _, places := range jobs[k].places {
				if _, to := jobs[i].own.Find(places); to != "" {
					return &core.Error{
						Kind: core.Invalid, Op: op, Object: jobs[k].name(),
						Err:    fmt.Errorf("it and job %s may write the same outputs to %s at the same time", jobs[i].name(), to),
						Remedy: "Name different directories in `to:`, or have one of them begin `after:` the other.",
					}
				}
			}
		}
	}
	return nil
}

// name is that of the job in its Beefile.
func (j newJob) name() string {
	if of := j.subs[0].Array; of != nil {
		return of.Name
	}
	return j.runs[0].Name
}

// admits returns what refuses new jobs where outputs of one would come where those of a run do
// that is not over; nil: they have none.
func admits(op string, jobs []newJob) func(active []state.Run) error {
	if !slices.ContainsFunc(jobs, func(j newJob) bool { return !j.own.Empty() }) {
		return nil
	}
	return func(active []state.Run) error {
		others := beside(active)
		known := maps.Clone(others.submissions)
		for _, job := range jobs { // of an array, one case has what all wait for
			known[job.runs[0].ID] = job.subs[0]
		}
		for _, job := range jobs {
			if err := job.admit(op, others, known); err != nil {
				return err
			}
		}
		return nil
	}
}

// admit refuses the job as admits does. known are the submissions of runs, by which one may be
// over when another begins.
func (j newJob) admit(op string, others activeRuns, known map[string]Submission) error {
	before := map[string]map[string]bool{} // runs that are over when a run begins, by what it waits for
	for _, run := range others.runs {
		i, _ := j.own.Find(others.places[run.ID])
		if i < 0 {
			continue
		}
		s := &j.subs[i]
		key := fmt.Sprint(s.After)
		if before[key] == nil {
			before[key] = s.before(known)
		}
		if !before[key][run.ID] {
			return errSamePlace(op, s.Job.Name, s.Job.Places().Collision(others.places[run.ID]), run)
		}
	}
	return nil
}
