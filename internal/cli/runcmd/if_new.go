package runcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"

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
	if sub.Origin.Beefile == "" {
		return state.Run{}, nil, &core.Error{
			Kind: core.Invalid, Op: "look for earlier runs of", Object: sub.Job.Name, Err: errors.New("its job comes from no file"),
			Remedy: "Write a Beefile, and name it: `bee run --if-new job.yaml`.",
		}
	}
	if sub.Within != "" && sub.Job.Build != nil {
		return state.Run{}, nil, &core.Error{
			Kind: core.Unsupported, Op: "look for earlier runs of", Object: sub.Origin.Beefile, Err: errors.New("another user may write it, and its image is built"),
			Remedy: "Copy the Beefile and what it builds to a directory of yours, or name an image.",
		}
	}
	image, err := s.Images.Resolve(ctx, &sub.Job, runtime.GOARCH, "always", s.Progress(core.PhaseImage))
	if err != nil {
		return state.Run{}, nil, err
	}
	// Of two that look at once, one submits, and the other one finds its run.
	lock, err := fsutil.LockFile(ctx, filepath.Join(s.Store.Dir(), "if-new.lock"))
	if err != nil {
		return state.Run{}, nil, err
	}
	defer lock.Unlock()
	old, is, err := oldRun(ctx, s, &sub, image.ID)
	if err != nil || is {
		return old, nil, err
	}
	return submission.Submit(ctx, s.Store, sub)
}

// oldRun finds the run because of which a job with an image is old.
func oldRun(ctx context.Context, s *workspace.Session, sub *submission.Submission, image string) (old state.Run, is bool, err error) {
	runs, err := s.Store.Runs(ctx, state.Filter{})
	if err != nil {
		return old, false, err
	}
	job, err := json.Marshal(sub.Job)
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
		then, err := json.Marshal(was.Job)
		if err != nil {
			return old, false, err
		}
		if r.Image == image && bytes.Equal(then, job) {
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
