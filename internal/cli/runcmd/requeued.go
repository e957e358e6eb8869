package runcmd

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// restarts is how often Slurm has started the job again that bee runs in: its batch script begins
// again each time, and with it the script's `bee run`.
func restarts() int {
	n, err := strconv.Atoi(os.Getenv("SLURM_RESTART_COUNT"))
	if err != nil || n < 0 || workspace.Allocation() == "" {
		return 0
	}
	return n
}

// begunBefore returns the runs of jobs that an allocation had submitted before Slurm started it again
// for the last time. Of several submissions of the same jobs, the first `bee run` of the script continues
// the oldest one, and so on. is is false where there is none.
func begunBefore(ctx context.Context, s *workspace.Session, jobs []submission.Job) (begun submission.Submitted, is bool, err error) {
	allocation, restart := workspace.Allocation(), restarts()
	if restart == 0 {
		return begun, false, nil
	}
	lock, err := fsutil.LockFile(ctx, filepath.Join(s.Store.Dir(), "requeued.lock")) // of two at once, each continues its own
	if err != nil {
		return begun, false, err
	}
	defer lock.Unlock()
	all, err := submission.Earlier(ctx, s.Store, allocation, func(sub *submission.Submission) bool {
		return sub.Restart < restart && slices.ContainsFunc(sub.Sites, func(site spec.Site) bool { return site.Granted() && site.Slurm.Job == allocation })
	})
	if err != nil {
		return begun, false, err
	}
	for _, one := range all {
		if !one.Of(jobs) {
			continue
		}
		id := one.Runs[0].ID
		events, err := s.Store.History().Events(ctx, id, event.KindRequeued)
		if err != nil {
			return begun, false, err
		}
		is := event.Requeued{Job: allocation, Restart: restart}
		if slices.ContainsFunc(events, func(e event.Event) bool { return e.Fields == is }) {
			continue
		}
		_, err = s.Store.AddEvent(ctx, event.Event{Run: id, Time: time.Now(), Fields: is})
		return one, err == nil, err
	}
	return begun, false, nil
}

// continueJobs continues jobs that this allocation had submitted before Slurm requeued it, and returns
// them. is is false where there are none.
func (a jobsRunner) continueJobs(ctx context.Context, s *workspace.Session, jobs []submission.Job) (submitted []submittedJob, is bool, err error) {
	begun, is, err := begunBefore(ctx, s, jobs)
	if err != nil || !is {
		return nil, false, err
	}
	for i := range begun.Runs {
		id := cmp.Or(begun.Runs[i].Case.Array, begun.Runs[i].ID)
		at := slices.IndexFunc(submitted, func(j submittedJob) bool { return j.id() == id })
		if at < 0 {
			at = len(submitted)
			submitted = append(submitted, submittedJob{first: &begun.Subs[i]})
		}
		submitted[at].runs = append(submitted[at].runs, begun.Runs[i])
	}
	var words []string
	for _, job := range submitted {
		words = append(words, job.id())
	}
	a.Say("Slurm has requeued job %s: what it had submitted continues, and no other run begins: %s", workspace.Allocation(), strings.Join(words, " "))
	resumed := map[string]bool{}
	for _, run := range begun.Runs {
		id := cmp.Or(run.Case.Pack, run.ID)
		if run.State.Resumable() && !resumed[id] {
			resumed[id] = true
			if err := resumeHere(ctx, a.Workspace, s, id); err != nil {
				return nil, true, err
			}
		}
	}
	return submitted, true, beginJobs(ctx, s, submitted)
}

// resumeHere resumes a suspended run on the sites of this allocation, unless another process has it.
func resumeHere(ctx context.Context, w *workspace.Workspace, s *workspace.Session, id string) error {
	lock, err := s.Store.Locks().Acquire(id)
	if core.IsKind(err, core.Busy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	run, err := s.Store.Run(ctx, id)
	if err != nil || !run.State.Resumable() {
		return err
	}
	sites, err := NewResume(w).inAllocation(run)
	if err != nil {
		return err
	}
	_, err = s.Resume(ctx, run, sites)
	return err
}

// continueRequeued continues the run that this allocation had begun when Slurm requeued it,
// as `bee resume` does, but here. found is false where there is none.
func (a *Commands) continueRequeued(ctx context.Context, s *workspace.Session, sub submission.Submission, o runOptions) (found bool, err error) {
	begun, is, err := begunBefore(ctx, s, []submission.Job{{Runs: []submission.Submission{sub}}})
	if err != nil || !is {
		return false, err
	}
	run := begun.Runs[0]
	if run.State.Final() {
		a.Say("Slurm has requeued job %s: its run %s is over, and no other one begins", workspace.Allocation(), run.ID)
		if o.detach {
			return true, a.printDetached(run, o)
		}
		return true, a.ending(ctx, s, run, o)
	}
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
