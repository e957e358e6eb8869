package runcmd

import (
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/request"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/supervisor"
	"github.com/spf13/cobra"
)

// ResumeCommand returns the command `resume`.
func (a *ResumeCommands) ResumeCommand() *cobra.Command {
	var (
		sites  []string
		from   string
		lost   bool
		asJSON bool
		t      console.Trust
		ticket workspace.Ticket
		seen   workspace.Seen
	)
	c := &cobra.Command{
		Use: "resume RUN", Short: "Continue a suspended run from its checkpoint, or send a waiting run to other sites",
		Long: `Continue a suspended run from its checkpoint, in the background. A run is
suspended when it has a checkpoint and no site can take it.

A run that waits in a queue, or for any site, leaves the queue and is sent to the
sites of --site.

With --site-lost, continue a run that waits for a site that does not answer. It
starts from its last checkpoint, or from the beginning where there is none. Until
the site answers, the job may compute twice: what that may be is printed.

With --from, take over from a store a run that was submitted on another machine.
The run cannot continue there any more. Each thing that its job does on this
machine outside the current directory is shown, and you are asked.

With --ticket, adopt the job or jobs of a ticket in the background, as bee wait
--ticket does.`,
		Example: "  bee resume lysozyme\n  bee resume lysozyme --site rack\n  bee resume --site-lost lysozyme\n  bee resume --from s3://bucket/bee lysozyme\n  bee resume --ticket run.ticket",
		Args:    ticket.Args(cobra.ExactArgs(1)), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			if ticket.File != "" {
				ticket.Trust(t)
				return a.resumeTicket(c.Context(), ticket, asJSON)
			}
			run, err := a.resume(c.Context(), args[0], sites, from, lost, t, seen)
			return a.printAsked(asJSON, run, nil, err)
		},
	}
	c.Flags().StringSliceVar(&sites, "site", nil, "`site` to try first; several with commas")
	a.SiteFlag(c)
	c.Flags().StringVar(&from, "from", "", "`store` from which to take the run over")
	ticket.Flags(c, &t)
	t.Flag(c.Flags(), "the record of --from, or the ticket,")
	c.Flags().BoolVar(&lost, "site-lost", false, "the site that the run waits for is lost: continue without it")
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	seen.Flag(c.Flags())
	for _, other := range []string{"from", "site-lost", "ticket"} {
		c.MarkFlagsMutuallyExclusive("attempt", other)
	}
	c.MarkFlagsMutuallyExclusive("from", "site-lost", "ticket")
	c.MarkFlagsMutuallyExclusive("site", "ticket")
	return c
}

// resume gives the run that continues.
func (a *ResumeCommands) resume(ctx context.Context, word string, names []string, from string, lost bool, t console.Trust, seen workspace.Seen) (state.Run, error) {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return state.Run{}, err
	}
	defer s.Close()
	if from != "" {
		return a.takeOver(ctx, s, word, names, from, t)
	}
	run, err := s.Store.FindRun(ctx, word, state.ToReach)
	if err == nil {
		run, err = s.Carrier(ctx, run)
	}
	if err != nil {
		return run, err
	}
	var sites []spec.Site
	if len(names) > 0 {
		if sites, err = a.LoadSites(&spec.Job{Sites: names}); err != nil {
			return run, err
		}
	}
	switch {
	case lost:
		return run, a.goOnWithout(ctx, s, run, sites)
	case !run.State.Resumable() && len(sites) > 0:
		return run, a.sendElsewhere(ctx, s, run, sites, seen)
	}
	run, goes, err := a.settle(ctx, s, run, settling)
	if err != nil {
		return run, err
	}
	if goes {
		a.Say("run %s is %s, and continues by itself; `bee logs -f %s` follows it, `bee show %s` shows its state", run.ID, run.State, run.ID, run.ID)
		return run, nil
	}
	return a.goOn(ctx, s, run, sites, seen)
}

// resumeTicket adopts the job or jobs of a ticket.
func (a *ResumeCommands) resumeTicket(ctx context.Context, t workspace.Ticket, asJSON bool) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return a.printAsked(asJSON, state.Run{}, nil, err)
	}
	defer s.Close()
	runs, err := s.Adopt(ctx, t)
	if err != nil {
		return a.printAsked(asJSON, state.Run{}, nil, err)
	}
	if what, words := workspace.AdoptedText(runs); words != "" {
		a.Say("adopted, in the background: %s; `bee logs -f %s` follows, `bee stop %s` ends", what, words, words)
	}
	jobs := workspace.JobsOf(runs)
	for i, of := range jobs {
		if of.Case.Array == "" {
			continue
		}
		array, err := s.Store.Arrays().Array(ctx, of.Case.Array)
		if err != nil {
			return a.printAsked(asJSON, of, nil, err)
		}
		jobs[i] = state.Run{ID: of.Case.Array, Name: of.Case.Name, State: array.State()}
	}
	if len(jobs) == 1 || !asJSON {
		return a.printAsked(asJSON, jobs[0], nil, nil)
	}
	views := make([]askedView, len(jobs))
	for i, job := range jobs {
		views[i] = askedView{job.ID, job.Name, job.State, nil}
	}
	return a.WriteJSON(views)
}

// settling is how long settle waits for a controller.
const settling = time.Minute

// settle starts a controller for a run that has none and is not over by its record, or waits
// for one that has just taken the run over. That controller finds out what became of the run,
// which may then continue by itself. goes means that it need not be resumed.
func (a *ResumeCommands) settle(ctx context.Context, s *workspace.Session, run state.Run, timeout time.Duration) (_ state.Run, goes bool, err error) {
	settled := func() bool { return run.State.Final() || run.State.Resumable() }
	if settled() {
		return run, false, nil
	}
	what := "the controller of run " + run.ID + " is gone; another one"
	lock, err := s.Store.Locks().Acquire(run.ID)
	if core.IsKind(err, core.Busy) {
		taken, err := a.justTaken(ctx, s, run)
		if err != nil || !taken {
			return run, false, err
		}
		what = "the controller of run " + run.ID + " was gone; " + s.Store.Locks().Who(run.ID)
	} else {
		if err == nil {
			err = lock.Unlock()
		}
		if err == nil {
			err = s.Background(run.ID)
		}
		if err != nil {
			return run, false, err
		}
	}
	a.Say("%s looks what has become of it", what)
	for begun := time.Now(); time.Since(begun) < timeout; {
		if err := core.Sleep(ctx, supervisor.TakeInterval); err != nil {
			return run, false, err
		}
		if run, err = s.Store.Run(ctx, run.ID); err != nil || settled() {
			return run, false, err
		}
	}
	return run, s.Store.Locks().Controlled(run.ID), nil
}

// justTaken reports whether a run's controller has taken it over from another one a moment
// ago: it has not begun the run's present attempt.
func (a *ResumeCommands) justTaken(ctx context.Context, s *workspace.Session, run state.Run) (bool, error) {
	taken := s.Store.Locks().Taken(run.ID)
	attempts, err := s.Store.Attempts(ctx, run.ID)
	if n := len(attempts); err != nil || n == 0 || attempts[n-1].Started.After(taken) {
		return false, err
	}
	return time.Since(taken) < settling, nil
}

// sendElsewhere has a run that waits for hosts go to other sites.
func (a *ResumeCommands) sendElsewhere(ctx context.Context, s *workspace.Session, run state.Run, sites []spec.Site, seen workspace.Seen) error {
	if err := seen.Requests(s).SendElsewhere(ctx, run, sites); err != nil {
		return err
	}
	a.Say("run %s goes to %s, within a minute; `bee show %s` tells", run.ID, siteNames(sites), run.ID)
	return s.Background(run.ID) // a controller that has it sees it by itself
}

// goOnWithout has a run continue without the site that it waits for.
func (a *ResumeCommands) goOnWithout(ctx context.Context, s *workspace.Session, run state.Run, sites []spec.Site) error {
	text, err := s.HoldLost(ctx, run, sites)
	if err != nil {
		return err
	}
	a.Say("run %s continues without its site; `bee logs -f %s` follows it: %s", run.ID, run.ID, text)
	return s.Background(run.ID) // a controller that has it sees it by itself
}

// takeOver continues with a run of another machine's, on given sites or all.
func (a *ResumeCommands) takeOver(ctx context.Context, s *workspace.Session, word string, names []string, from string, t console.Trust) (state.Run, error) {
	store, err := spec.AbsoluteStore(from)
	if err != nil {
		return state.Run{}, &core.Error{Kind: core.Invalid, Op: "read --from", Object: from, Err: err}
	}
	sites, err := a.LoadSites(&spec.Job{Sites: names})
	if err != nil {
		return state.Run{}, err
	}
	s.Report = console.NewProgress(a.Console, false).Report // it reports what the other one has left
	f := a.Foreign("the run "+word, "its record is in "+store, t)
	f.Sites = func([]string) ([]spec.Site, error) { return sites, nil }
	run, err := s.TakeOver(ctx, store, word, f)
	if err != nil {
		return run, err
	}
	return a.goOn(ctx, s, run, nil, workspace.Seen{})
}

// tidying is for how long a controller that has a suspended run may take to release
// of it: it ends what the run has left on its sites.
const tidying = 3 * time.Minute

// lockSuspended locks a suspended run, once a controller that still has it is done. There is
// no lock where that controller has continued the run, as the user wants.
func (a *ResumeCommands) lockSuspended(ctx context.Context, s *workspace.Session, run state.Run) (*state.Lock, error) {
	for begun, reported := time.Now(), false; ; {
		lock, err := s.Store.Locks().Acquire(run.ID)
		switch {
		case !core.IsKind(err, core.Busy):
			return lock, err
		case run.State.Final():
			return nil, request.NotSuspended(run)
		case !run.State.Resumable():
			return nil, nil
		case time.Since(begun) > tidying:
			return nil, &core.Error{Kind: core.Busy, Op: "resume run", Object: run.ID, Err: errors.New(s.Store.Locks().Who(run.ID) + " has it: " + workspace.TidyingText), Remedy: "`bee supervise` continues it after that; `bee show " + run.ID + "` tells more."}
		}
		if !reported && time.Since(begun) > workspace.Silence {
			reported = true
			a.Say("run %s: %s; it continues after that", run.ID, workspace.TidyingText)
		}
		if err := core.Sleep(ctx, supervisor.TakeInterval); err != nil {
			return nil, err
		}
		if run, err = s.Store.Run(ctx, run.ID); err != nil {
			return nil, err
		}
	}
}

// inAllocation returns the sites on which a run continues that is resumed in an allocation of
// Slurm's; none outside of one.
func (a *ResumeCommands) inAllocation(run state.Run) ([]spec.Site, error) {
	allocation := workspace.Allocation()
	if allocation == "" {
		return nil, nil
	}
	f, err := a.FindSites()
	if err != nil {
		return nil, nil // the run keeps the sites that it has
	}
	return submission.InAllocation(run, f.Sites, allocation)
}

// goOn has a suspended run continue in the background.
func (a *ResumeCommands) goOn(ctx context.Context, s *workspace.Session, run state.Run, sites []spec.Site, seen workspace.Seen) (state.Run, error) {
	var err error
	if len(sites) == 0 {
		sites, err = a.inAllocation(run)
	}
	if err == nil {
		err = seen.Requests(s).Resume(ctx, run, sites) // from here on `bee supervise` continues it, too
	}
	if err != nil {
		return run, err
	}
	lock, err := a.lockSuspended(ctx, s, run) // nobody else shall carry it on meanwhile
	if err != nil {
		return run, err
	}
	run, err = s.Store.Run(ctx, run.ID) // a controller that had it may have continued it meanwhile
	if lock != nil {
		if err == nil {
			run, err = s.ApplyResume(ctx, run)
		}
		if uerr := lock.Unlock(); err == nil {
			err = uerr
		}
	}
	if err != nil {
		return run, err
	}
	if err := s.Background(run.ID); err != nil {
		return run, err
	}
	a.Say("run %s continues in the background; `bee logs -f %s` follows it", run.ID, run.ID)
	attempts, err := s.Store.Attempts(ctx, run.ID)
	if err != nil {
		return run, err
	}
	for _, at := range attempts {
		if !at.Released() {
			a.Say("site %s may still hold something of attempt %d: if it does not answer, `bee show %s` shows what that means for the run", at.Site, at.N, run.ID)
		}
	}
	return run, nil
}
