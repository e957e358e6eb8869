package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// submitIfNew submits a job unless it is old: a run of it is not over, or the last success
// had the same job and image. Then the run that shows this is returned, and no lock.
func submitIfNew(ctx context.Context, s *workspace.Session, sub submission.Submission) (state.Run, *state.Lock, error) {
	image, err := imageNow(ctx, s, &sub)
	if err != nil {
		return state.Run{}, nil, err
	}
	// Of two that look at once, one submits, and the other one finds its run.
	lock, err := fsutil.LockFile(ctx, filepath.Join(s.Store.Dir(), "if-new.lock"))
	if err != nil {
		return state.Run{}, nil, err
	}
	defer lock.Unlock()
	old, is, err := oldRun(ctx, s, &sub, image)
	if err != nil || is {
		return old, nil, err
	}
	return submission.Submit(ctx, s.Store, sub)
}

// imageNow returns the id of the image that a job of a file means now.
func imageNow(ctx context.Context, s *workspace.Session, sub *submission.Submission) (string, error) {
	if sub.Origin.Beefile == "" {
		return "", &core.Error{
			Kind: core.Invalid, Op: "look for earlier runs of", Object: sub.Job.Name, Err: errors.New("its job comes from no file"),
			Remedy: "Write a Beefile, and name it: `bee run --if-new job.yaml`.",
		}
	}
	if sub.Within != "" && sub.Job.Build != nil {
		return "", &core.Error{
			Kind: core.Unsupported, Op: "look for earlier runs of", Object: sub.Origin.Beefile, Err: errors.New("another user may write it, and its image is built"),
			Remedy: "Copy the Beefile and what it builds to a directory of yours, or name an image.",
		}
	}
	image, err := s.Images.Resolve(ctx, &sub.Job, runtime.GOARCH, "always", s.Progress(core.PhaseImage))
	return image.ID, err
}

// oldJobs is the error of jobs that are old, with those because of which they are.
type oldJobs struct{ submission.Submitted }

func (o oldJobs) Error() string { return "nothing of the jobs is new" }

// submitJobsIfNew submits the jobs of a file unless they are old: a run of the file is not over, or
// the last submission that succeeded had the same jobs and images. Then the error is oldJobs.
func submitJobsIfNew(ctx context.Context, s *workspace.Session, jobs []submission.Job) ([][]state.Run, error) {
	images := map[string]string{}
	for _, job := range jobs {
		image, err := imageNow(ctx, s, &job.Runs[0]) // cases of an array have the same
		if err != nil {
			return nil, err
		}
		for i := range job.Runs {
			images[job.Runs[i].Job.Name] = image
		}
	}
	lock, err := fsutil.LockFile(ctx, filepath.Join(s.Store.Dir(), "if-new.lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	file := jobs[0].Runs[0].Origin.Beefile
	ofFile := func(sub *submission.Submission) bool { return sub.Origin.Beefile == file }
	all, err := submission.Earlier(ctx, s.Store, file, ofFile)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if _, is := one.Live(); is {
			return nil, oldJobs{one}
		}
	}
	for _, one := range slices.Backward(all) {
		is, err := one.Succeeded(ctx, s.Store)
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		if is = one.Of(jobs); is {
			is, err = one.Had(ctx, s.Store, images)
		}
		if err == nil && is {
			err = oldJobs{one}
		}
		if err != nil {
			return nil, err
		}
		break
	}
	return submission.SubmitJobsUnless(ctx, s.Store, jobs, func(active []state.Run) error { // a `bee run` may have come between
		for _, run := range active {
			if sub, err := submission.Of(run); err == nil && ofFile(&sub) {
				return oldJobs{submission.Submitted{Runs: []state.Run{run}, Subs: []submission.Submission{sub}}}
			}
		}
		return nil
	})
}

// printOldJobs reports the runs because of which no jobs were started.
func printOldJobs(ctx context.Context, a jobsRunner, s *workspace.Session, old oldJobs, o runOptions) error {
	if !o.quiet {
		if run, live := old.Live(); live {
			a.Say("nothing is started: run %s (%s) of the file is %s", run.ID, output.Printable(run.Name), run.State)
		} else {
			a.Say("nothing is started: all jobs have succeeded last, and neither the Beefile nor an image has changed since")
		}
	}
	if err := a.records.Results(ctx, s, o.results, old.Runs, true); err != nil || !o.asJSON {
		return err
	}
	var views []any
	for _, run := range workspace.JobsOf(old.Runs) {
		if run.Case.Array != "" {
			array, err := s.Store.Arrays().Array(ctx, run.Case.Array)
			if err != nil {
				return err
			}
			views = append(views, runview.OfArray(array))
			continue
		}
		view, err := runview.Of(ctx, s, run)
		if err != nil {
			return err
		}
		views = append(views, view)
	}
	return a.WriteJSON(views)
}

// oldRun finds the run because of which a job with an image is old.
func oldRun(ctx context.Context, s *workspace.Session, sub *submission.Submission, image string) (old state.Run, is bool, err error) {
	runs, err := s.Store.Runs(ctx, state.Filter{})
	if err != nil {
		return old, false, err
	}
	last := true
	for _, r := range runs { // newest first
		var was submission.Submission
		if r.Name != sub.Job.Name || json.Unmarshal(r.Submission, &was) != nil || was.Origin.Beefile != sub.Origin.Beefile {
			continue
		}
		if !r.State.Final() {
			return r, true, nil
		}
		if r.State != state.Succeeded || !last {
			continue
		}
		last = false
		if r.Image == image && submission.SameJob(&was.Job, &sub.Job) {
			old, is = r, true // unless an older one is not over
		}
	}
	return old, is, nil
}

// printOld reports the run because of which none was started.
func (a *Commands) printOld(ctx context.Context, s *workspace.Session, run state.Run, o runOptions) error {
	if !o.quiet {
		why := "is its last success, and neither the Beefile nor the image has changed since"
		if !run.State.Final() {
			why = "of it is " + string(run.State)
		}
		a.Say("nothing is started: run %s %s", run.ID, why)
	}
	if err := a.records.Results(ctx, s, o.results, []state.Run{run}, true); err != nil || !o.asJSON {
		return err
	}
	v, err := runview.Of(ctx, s, run)
	if err != nil {
		return err
	}
	return a.WriteJSON(v)
}
