package runcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// requeued reports whether Slurm has started the job that bee runs in before: its batch
// script begins again, and with it the script's `bee run`.
func requeued() bool {
	n, err := strconv.Atoi(os.Getenv("SLURM_RESTART_COUNT"))
	return err == nil && n > 0 && workspace.Allocation() != ""
}

// begunBefore returns the runs of the same job descriptions that an allocation has begun and not
// ended, the oldest first.
func begunBefore(ctx context.Context, s *workspace.Session, subs []submission.Submission, allocation string) ([]state.Run, error) {
	wanted := make(map[string]bool, len(subs))
	for i := range subs {
		job, err := json.Marshal(subs[i].Job)
		if err != nil {
			return nil, err
		}
		wanted[string(job)] = true
	}
	runs, err := s.Store.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return nil, err
	}
	var begun []state.Run
	for _, run := range slices.Backward(runs) {
		before, err := submission.Of(run)
		if err != nil || !slices.ContainsFunc(before.Sites, func(site spec.Site) bool { return site.Granted() && site.Slurm.Job == allocation }) {
			continue // no bee of this version's, or of another allocation
		}
		if job, err := json.Marshal(before.Job); err == nil && wanted[string(job)] {
			begun = append(begun, run)
		}
	}
	return begun, nil
}

// refuseRequeued refuses to submit several runs of a Beefile a second time, which this allocation
// had begun when Slurm requeued it.
func refuseRequeued(ctx context.Context, s *workspace.Session, what string, subs []submission.Submission) error {
	if !requeued() {
		return nil
	}
	begun, err := begunBefore(ctx, s, subs, workspace.Allocation())
	if err != nil || len(begun) == 0 {
		return err
	}
	var words []string
	for _, run := range begun {
		if word := cmp.Or(run.Case.Array, run.ID); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	which := strings.Join(words, " ")
	return &core.Error{
		Kind: core.Busy, Op: "submit the jobs of", Object: what, Err: fmt.Errorf("job %s of Slurm, which had begun them, was requeued: %s", workspace.Allocation(), which),
		Remedy: fmt.Sprintf("`bee wait %s` waits for them. `bee resume` continues those that are suspended.", which),
	}
}

// continueRequeued continues the run that this allocation had begun when Slurm requeued it,
// as `bee resume` does, but here. found is false where there is none.
func (a *Commands) continueRequeued(ctx context.Context, s *workspace.Session, sub submission.Submission, o runOptions) (found bool, err error) {
	begun, err := begunBefore(ctx, s, []submission.Submission{sub}, workspace.Allocation())
	if err != nil || len(begun) == 0 {
		return false, err
	}
	run := begun[0]
	a.Say("Slurm has requeued job %s: its run %s continues, and no other one begins", workspace.Allocation(), run.ID)
	lock, err := s.Store.Locks().Acquire(run.ID)
	if core.IsKind(err, core.Busy) {
		if run, _, err = NewResume(a.Workspace).settle(ctx, s, run, settling); err == nil && run.State.Resumable() {
			lock, err = NewResume(a.Workspace).lockSuspended(ctx, s, run)
		}
		if err == nil && lock == nil { // another process has it, and continues it
			return true, a.followToItsEnd(ctx, s, run, o)
		}
	}
	if err != nil {
		return true, err
	}
	if run, err = s.Store.Run(ctx, run.ID); err == nil && run.State.Resumable() {
		var sites []spec.Site
		if sites, err = NewResume(a.Workspace).inAllocation(run); err == nil {
			run, err = s.Resume(ctx, run, sites)
		}
	}
	if err != nil {
		lock.Unlock()
		return true, err
	}
	return true, a.carryOut(ctx, s, run, lock, o)
}

// followToItsEnd shows a run that another process controls, until it is over or waits for
// its user: the allocation ends with the script.
func (a *Commands) followToItsEnd(ctx context.Context, s *workspace.Session, run state.Run, o runOptions) error {
	if o.detach {
		return a.printDetached(run, o)
	}
	followed, end := context.WithCancel(ctx)
	defer end()
	go func() {
		defer end()
		for core.Sleep(followed, time.Second) == nil {
			if now, err := s.Store.Run(followed, run.ID); err == nil && now.State.Resumable() {
				return
			}
		}
	}()
	err := a.records.Follow(followed, s, run.ID)
	if now, rerr := s.Store.Run(ctx, run.ID); rerr == nil && (now.State.Resumable() || now.State.Final()) {
		return a.ending(ctx, s, now, o)
	}
	return err
}
