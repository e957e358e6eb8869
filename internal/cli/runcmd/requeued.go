package runcmd

import (
	"cmp"
	"context"
	"fmt"
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

// requeued are runs that an allocation had submitted before Slurm started it again. No other command
// looks for such runs until they continue, or unlock is called.
type requeued struct {
	submission.Submitted
	s    *workspace.Session
	is   event.Requeued
	lock *fsutil.Lock
}

// continued records that this command continues the runs: another one of the script leaves them alone.
func (r *requeued) continued(ctx context.Context) error {
	_, err := r.s.Store.AddEvent(ctx, event.Event{Run: r.Runs[0].ID, Time: time.Now(), Fields: r.is})
	if err == nil {
		r.unlock()
	}
	return err
}

func (r *requeued) unlock() {
	if r.lock != nil {
		core.BestEffort(r.lock.Unlock()) // its end is that of the descriptor, too
		r.lock = nil
	}
}

// begunBefore returns the runs of jobs that an allocation had submitted before Slurm started it again
// for the last time; nil: there are none. Of several submissions of the same jobs, the first `bee run` of
// the script continues the oldest one, and so on. Busy: a part of the jobs is live, and the others were
// removed or are others now.
func begunBefore(ctx context.Context, s *workspace.Session, jobs []submission.Job) (_ *requeued, err error) {
	allocation, restart := workspace.Allocation(), restarts()
	if restart == 0 {
		return nil, nil
	}
	begun := &requeued{s: s, is: event.Requeued{Job: allocation, Restart: restart}}
	if begun.lock, err = fsutil.LockFile(ctx, filepath.Join(s.Store.Dir(), "requeued.lock")); err != nil { // of two at once, each continues its own
		return nil, err
	}
	found := false
	defer func() {
		if !found {
			begun.unlock()
		}
	}()
	all, err := submission.Earlier(ctx, s.Store, allocation, func(sub *submission.Submission) bool {
		return sub.Restart < restart && slices.ContainsFunc(sub.Sites, func(site spec.Site) bool { return site.Granted() && site.Slurm.Job == allocation })
	})
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, one := range all {
		is, live := one.Of(jobs), one.LiveOf(jobs)
		if !is && len(live) == 0 {
			continue
		}
		events, err := s.Store.History().Events(ctx, one.Runs[0].ID, event.KindRequeued)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(events, func(e event.Event) bool { return e.Fields == begun.is }) {
			continue
		}
		if is {
			begun.Submitted, found = one, true
			return begun, nil
		}
		for _, run := range live {
			if word := run.Job(); !slices.Contains(parts, word) {
				parts = append(parts, word)
			}
		}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	which := strings.Join(parts, " ")
	return nil, &core.Error{
		Kind: core.Busy, Op: "submit again in job", Object: allocation, Err: fmt.Errorf("before Slurm requeued it, it had submitted a part of the same, which is not over: %s", which),
		Remedy: fmt.Sprintf("`bee wait %[1]s` waits for that, and `bee stop %[1]s` ends it. `bee resume` continues what is suspended.", which),
	}
}

// continueJobs continues jobs that this allocation had submitted before Slurm requeued it, and returns
// them. is is false where there are none.
func (a jobsRunner) continueJobs(ctx context.Context, s *workspace.Session, jobs []submission.Job) (submitted []submittedJob, is bool, err error) {
	begun, err := begunBefore(ctx, s, jobs)
	if err != nil || begun == nil {
		return nil, false, err
	}
	defer begun.unlock()
	for i := range begun.Runs {
		id := begun.Runs[i].Job()
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
	if err := beginJobs(ctx, s, submitted); err != nil {
		return nil, true, err
	}
	return submitted, true, begun.continued(ctx)
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
	begun, err := begunBefore(ctx, s, []submission.Job{{Runs: []submission.Submission{sub}}})
	if err != nil || begun == nil {
		return false, err
	}
	defer begun.unlock()
	run := begun.Runs[0]
	if run.State.Final() {
		if err := begun.continued(ctx); err != nil {
			return true, err
		}
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
			if err := begun.continued(ctx); err != nil {
				return true, err
			}
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
	if err == nil {
		err = begun.continued(ctx)
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
