package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// jobsRunner submits the jobs of a Beefile that has several.
type jobsRunner struct{ *Commands }

// submittedJob is one of them, once it is on record.
type submittedJob struct {
	// first is the submission of its run, or of the first case of its array.
	first *submission.Submission
	runs  []state.Run
}

// id is that of its run or array, and name is what it is called.
func (j submittedJob) id() string {
	if of := j.first.Array; of != nil {
		return of.ID
	}
	return j.runs[0].ID
}

func (j submittedJob) name() string {
	if of := j.first.Array; of != nil {
		return of.Name
	}
	return j.runs[0].Name
}

// text is what the job is, and what it waits for.
func (j submittedJob) text() string {
	after, name := afterText(&j.first.Job), output.Printable(j.name())
	if j.first.Array != nil {
		return fmt.Sprintf("array %s of %s: %s%s", j.id(), name, console.CountText(len(j.runs), "case"), after)
	}
	return fmt.Sprintf("run %s of %s: %s on %s%s", j.id(), name, console.CountText(j.first.Job.Nodes, "node"), siteNames(j.first.Sites), after)
}

// refuseOfOne refuses flags that are for one job, or would have all jobs wait for one of them.
func (o runOptions) refuseOfOne(from jobSource) error {
	if o.given(oneJob) {
		return &core.Error{
			Kind: core.Invalid, Op: "submit the jobs of", Object: from.what, Err: fmt.Errorf("it has %d, and one is wanted", len(from.jobs)),
			Remedy: "Write a Beefile for each job, or submit all by `bee run -d`.",
		}
	}
	for _, flag := range []string{"interactive", "tty", "name", "cases", "explain"} {
		if o.given(flag) {
			return &core.Error{
				Kind: core.Unsupported, Op: "submit the jobs of", Object: from.what, Err: fmt.Errorf("--%s is for one job, and it has %d", flag, len(from.jobs)),
				Remedy: "Leave it out, or write a Beefile for that job alone.",
			}
		}
	}
	for _, text := range o.after {
		name := spec.ParseAfter(text).Run
		if slices.ContainsFunc(from.jobs, func(j jobSource) bool { return j.draft.Job.Name == name }) {
			return &core.Error{
				Kind: core.Invalid, Op: "read", Object: "--after " + text, Err: fmt.Errorf("%q is a job of %s, and the flag is for all of its jobs", name, from.what),
				Remedy: "Write it as `after:` of the job that waits. If another run has this name, give the run's id.",
			}
		}
	}
	return nil
}

// submissions are the jobs as the flags change them, with their sites. All of them are checked
// before the first one is submitted.
func (a jobsRunner) submissions(from jobSource, o runOptions) ([]submission.Job, error) {
	all := *a.Commands
	all.Workspace = a.ReadingSitesOnce()
	finished, err := all.finishAll(from, o)
	if err != nil {
		return nil, err
	}
	of := o
	of.jobs = true
	jobs, places := make([]submission.Job, len(finished)), make([]*spec.DraftPlaces, len(finished))
	var reaches reachList
	for i, f := range finished {
		made := arraySubmissions{}
		if len(f.from.draft.Cases()) > 0 {
			made, err = arrayRunner{&all}.submissions(f.from, casesOf(f.from), of)
		} else {
			made.subs, made.places = make([]submission.Submission, 1), f.from.draft.OutputPlaces()
			if made.subs[0], err = f.submission(&all, o); err == nil {
				err = all.AddReceivers(&made.subs[0])
			}
			made.places.Add(f.job, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", f.job.Name, err)
		}
		jobs[i].Runs, places[i] = made.subs, made.places
		reaches.add(f.reaches)
		reaches.add(made.reaches.list)
	}
	if err := spec.OutputsApart(places); err != nil {
		return nil, err
	}
	return jobs, a.Allow(from.what, from.strange, reaches.list, o.trust, o.quiet)
}

// findRuns finds the runs on record that the jobs wait for, beside other jobs of the file.
func findRuns(ctx context.Context, store *state.Store, from jobSource, jobs []submission.Job) error {
	var wrong error
	known := map[spec.After]submission.Dependency{}
	for i, source := range from.jobs {
		draft := source.draft
		links := map[int]bool{}
		for _, l := range draft.Links() {
			links[l.After] = true
		}
		for k, after := range draft.Job.After {
			if links[k] {
				continue
			}
			d, is := known[after]
			if !is {
				var err error
				if d, err = submission.FindDependency(ctx, store, after); core.IsKind(err, core.NotFound) || core.IsKind(err, core.Invalid) {
					draft.RefuseAfter(k, err)
					continue
				} else if err != nil {
					return err
				}
				known[after] = d
			}
			jobs[i].After = append(jobs[i].After, d)
		}
		wrong = spec.Both(wrong, draft.Problems())
	}
	return wrong
}

// run submits the jobs, and waits for them unless they are to continue in the background.
func (a jobsRunner) run(ctx context.Context, from jobSource, o runOptions) error {
	if err := o.refuseOfOne(from); err != nil {
		return err
	}
	jobs, err := a.submissions(from, o)
	if err != nil {
		return err
	}
	for i, source := range from.jobs {
		for _, l := range source.draft.Links() {
			jobs[i].Links = append(jobs[i].Links, submission.Link{Job: l.Job, On: cmp.Or(source.draft.Job.After[l.After].On, spec.AfterSuccess)})
		}
	}
	remove, err := ticketOf(jobs, o)
	if err != nil {
		return err
	}
	defer remove()
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.ticket != "" {
		if err := s.CheckTicketSites(jobs); err != nil {
			return err
		}
	}
	if _, err := a.TakeOrphans(ctx, s); err != nil {
		return err
	}
	if o.ticket == "" {
		if begun, is, err := a.continueJobs(ctx, s, jobs); err != nil || is {
			if err != nil {
				return err
			}
			return a.watchJobs(ctx, s, begun, o)
		}
	}
	if err := findRuns(ctx, s.Store, from, jobs); err != nil {
		return err
	}
	submit := submission.SubmitJobs
	if o.ifNew {
		submit = func(ctx context.Context, _ *state.Store, jobs []submission.Job) ([][]state.Run, error) {
			return submitJobsIfNew(ctx, s, jobs)
		}
	}
	runs, err := submit(ctx, s.Store, jobs)
	if old, is := errors.AsType[oldJobs](err); is {
		return printOldJobs(ctx, a, s, old, o)
	}
	if err != nil {
		return err
	}
	submitted := make([]submittedJob, len(jobs))
	for i := range jobs {
		submitted[i] = submittedJob{&jobs[i].Runs[0], runs[i]}
	}
	if o.ticket != "" {
		return severalTicket{a, s, submitted, o}.carryJobs(ctx)
	}
	if err := beginJobs(ctx, s, submitted); err != nil {
		return err
	}
	if !o.quiet {
		a.sayOfJobs(ctx, s, submitted)
	}
	return a.watchJobs(ctx, s, submitted, o)
}

// watchJobs shows what jobs do in the background, unless this command is to end.
func (a jobsRunner) watchJobs(ctx context.Context, s *workspace.Session, jobs []submittedJob, o runOptions) error {
	if o.detach {
		return a.printDetached(jobs, o)
	}
	var runs []state.Run
	for _, job := range jobs {
		if !o.quiet {
			a.Say("%s", job.text())
		}
		runs = append(runs, job.runs...)
	}
	w := jobsWatch{a: a, s: s, jobs: jobs, o: o}
	if !slices.ContainsFunc(runs, func(r state.Run) bool { return !r.State.Final() }) { // as those of a batch job that begins again
		return w.ending(ctx, runs)
	}
	return w.await(ctx)
}

// beginJobs has a supervisor carry jobs out.
func beginJobs(ctx context.Context, s *workspace.Session, jobs []submittedJob) error {
	var ids []string
	for _, job := range jobs {
		of := job.first.Array
		if of == nil {
			ids = append(ids, job.id())
			continue
		}
		due, err := s.Store.Arrays().Due(ctx, carriedArray(of)) // the supervisor continues the others in their turn
		if err != nil {
			return err
		}
		ids = append(ids, due...)
	}
	if err := s.Background(ids...); err != nil {
		return fmt.Errorf("go on in the background with the jobs: %w", err)
	}
	return nil
}

// sayOfJobs prints what the user may not expect of new jobs.
func (a jobsRunner) sayOfJobs(ctx context.Context, s *workspace.Session, jobs []submittedJob) {
	notifies := false
	for _, job := range jobs {
		sub, name := job.first, output.Printable(job.name())
		notifies = notifies || len(sub.Notify)+len(sub.Job.Notify) > 0
		for _, text := range slices.Concat(sub.Job.SkippedSites(sub.Sites), sub.Job.Warnings(sub.Sites), control.InputWarnings(ctx, &sub.Job, sub.Own)) {
			a.Say("warning: %s: %s", name, output.Printable(text))
		}
		if sites := s.Attended(sub); len(sites) > 0 {
			a.Say("%s: %s", name, attendedText("the", namesOf(sites)))
		}
	}
	if notifies {
		a.Say("%s", notificationsText)
	}
}

// mostNamed bounds the jobs that a line names.
const mostNamed = 5

// printDetached prints what there is to know of jobs that continue in the background.
func (a jobsRunner) printDetached(jobs []submittedJob, o runOptions) error {
	if o.asJSON {
		views := make([]map[string]any, len(jobs))
		for i, job := range jobs {
			views[i] = map[string]any{"id": job.id(), "name": job.name(), "state": state.Queued}
			if job.first.Array != nil {
				views[i]["runs"] = idsOf(job.runs)
			}
		}
		return a.WriteJSON(views)
	}
	var words []string
	for _, job := range jobs {
		if _, err := fmt.Fprintln(a.Stdout, job.id()); err != nil {
			return err
		}
		words = append(words, job.id())
	}
	if o.quiet {
		return nil
	}
	for _, job := range jobs {
		a.On(a.Stderr).SayBelow("%s", job.text())
	}
	how := "`bee ps` lists them"
	if len(words) <= mostNamed {
		how = fmt.Sprintf("`bee wait %[1]s` waits for them, `bee stop %[1]s` ends them", strings.Join(words, " "))
	}
	a.Say("%s continue in the background; %s", console.CountText(len(jobs), "job"), how)
	return nil
}
