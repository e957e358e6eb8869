package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/usage"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/spf13/cobra"
)

type runOptions struct {
	detach bool
	quiet  bool
	asJSON bool
	site   []string
	nodes  int
	image  string
	env    []string
	labels []string
	after  []string
	// again is the run to repeat.
	again string
	// cases are those of an array that are run; "": all.
	cases string
	pull  string
	wait  time.Duration
	// ifNew has nothing started where the last success had the same job and image.
	ifNew bool
	// ticket is the file of the run's ticket; "": it has none.
	ticket string
	// results are the files for a CI service.
	results workspace.ResultFiles
	// explain lists all sites before the run begins.
	explain bool
	// begins is set where the job shall run: what it takes from this machine has to be there.
	begins bool
	// jobs: it is one of several jobs of a Beefile.
	jobs   bool
	trust  console.Trust
	docker likeDocker
	lends  interactive
	// time, cores and memory are as the user wrote them.
	time, memory string
	cores        int
	// given reports whether the user gave a flag.
	given func(flag string) bool
}

// oneJob is a flag of programs that follow one run.
const oneJob = "one-job"

// RunCommand returns the command `run`.
func (a *Commands) RunCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run BEEFILE|IMAGE [COMMAND...]",
		Short: "Run a job and collect its results",
		Long: `Run the job that a Beefile describes, on the first of its sites that can take it.
A file that exists is a Beefile, and - is one on standard input. Else the argument is an
image, with its command behind it, as for docker run.

bee run shows the task's output, collects its outputs and ends with the task's
own exit code. The job does not depend on this process: it continues when the
terminal closes, and ` + "`bee logs -f`, `bee show` and `bee stop`" + ` find it again.
Ctrl-C asks what to do.

With -i and -t the job's command reads what you type or pipe, and depends on this
process: if that ends before the input does, the run fails. It cannot be moved, and
on a terminal Ctrl-C is the command's.

Of a Beefile with several jobs, all are submitted or none. Each line of output has the name
of its job. The code is that of the first job that did not succeed.

With --junit and --summary, write at the end what became of the run, for a CI service. JUnit's
XML has one test for the run, or for each case of an array. With -d, bee wait writes both.`,
		Example: "  bee run job.yaml\n  bee run docker.io/library/debian:12 uname -a\n  bee run -n 2 -v /project/data:/data:ro lab/solver:2.1 mpirun solver /data/case\n  bee run -d --site lab job.yaml\n  bee run -it docker.io/library/debian:12 bash\n  bee run --image oci:./app --nodes 4 job.yaml\n  bee run --again pi -n 4",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && o.again == "" {
				return usage.NothingToRun(c, o.docker.volumes)
			}
			o.given = c.Flags().Changed
			err := o.refuseResults()
			if err == nil {
				err = o.results.Prepare()
			}
			if err != nil {
				return a.inJSON(o, err)
			}
			from, err := a.jobToRun(c, args, o.again)
			if err == nil {
				err = a.run(c.Context(), from, o)
			}
			return a.inJSON(o, a.Failure(o.results, cmp.Or(o.again, strings.Join(args[:min(len(args), 1)], " ")), err))
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // an image's command has flags of its own
	o.docker.flags(c)
	o.lends.flags(f)
	f.BoolVarP(&o.detach, "detach", "d", false, "print the run's id and continue in the background")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show the task's output only")
	f.BoolVar(&o.asJSON, "json", false, "write the run's record as JSON at the end, and the task's output to standard error")
	f.StringSliceVar(&o.site, "site", nil, "`sites` to use instead of the Beefile's, in order")
	a.SiteFlag(c)
	f.IntVarP(&o.nodes, "nodes", "n", 0, "`number` of nodes instead of the Beefile's")
	o.resourceFlags(f)
	f.StringVar(&o.image, "image", "", "image `reference` instead of the Beefile's")
	f.StringVar(&o.again, "again", "", "repeat the job of this `run`, as it was then; of an array, all cases")
	a.RunsFlag(c, "again")
	f.StringVar(&o.cases, "cases", "", "run only these `cases` of an array, such as 3,7-9; with --again also failed")
	f.StringArrayVar(&o.labels, "label", nil, "put the label `KEY=VALUE` on the run; KEY alone has no value")
	f.StringArrayVar(&o.after, "after", nil, "begin when another run has succeeded; `RUN:failure` when it has not, RUN:end in both cases")
	a.RunsFlag(c, "after")
	f.StringArrayVarP(&o.env, "env", "e", nil, "set `KEY=VALUE` in the containers; KEY alone takes the caller's value, if it has one")
	f.DurationVar(&o.wait, "wait", 0, "`time` to ask again when no site can take the run, instead of the Beefile's wait")
	f.BoolVar(&o.ifNew, "if-new", false, "start nothing if a run of the Beefile is not over, or its last success had the same Beefile and images")
	f.StringVar(&o.ticket, "ticket", "", "with -d: seal in a new `file` what another machine needs to continue the job or jobs, by the key in BEE_TICKET_KEY")
	o.results.Flags(f)
	o.trust.Flag(f, "the Beefile")
	f.BoolVar(&o.explain, "explain", false, "list first what each site would do with the job")
	f.StringVar(&o.pull, "pull", "missing", "`rule` for asking the registry: missing, always or never")
	workspace.WordsFlag(c, "pull", "missing", "always", "never")
	f.Bool(oneJob, false, "refuse a Beefile with several jobs: a program follows one run")
	f.MarkHidden(oneJob)
	return c
}

// inJSON reports an error in JSON as well, where that is wanted: a script that reads
// a record has to find why there is none.
func (a *Commands) inJSON(o runOptions, err error) error {
	if _, reported := errors.AsType[console.Exit](err); err == nil || reported || !o.asJSON {
		return err
	}
	if werr := a.WriteJSON(console.FailureOf(err)); werr != nil {
		return werr
	}
	return err
}

func (a *Commands) run(ctx context.Context, from jobSource, o runOptions) error {
	o.begins = true
	if err := o.refuseTicket(); err != nil {
		return err
	}
	if len(from.jobs) > 0 {
		return jobsRunner{a}.run(ctx, from, o)
	}
	if len(from.cases) > 0 || len(from.draft.Cases()) > 0 {
		return arrayRunner{a}.run(ctx, from, o)
	}
	if o.cases != "" {
		return &core.Error{Kind: core.Invalid, Op: "read", Object: "--cases " + o.cases, Err: errors.New("the job has no array"), Remedy: "Leave it out, or give the Beefile an `array:`."}
	}
	sub, err := a.submission(from, o)
	if err != nil {
		return err
	}
	if err := o.lends.change(&sub, from, o.detach); err != nil {
		return err
	}
	sealed := []submission.Submission{sub}
	remove, err := ticketOf([]submission.Job{{Runs: sealed}}, o)
	if err != nil {
		return err
	}
	defer remove()
	sub = sealed[0]
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.ticket == "" {
		if found, err := a.continueRequeued(ctx, s, sub, o); found || err != nil {
			return err
		}
	}
	if _, err := a.TakeOrphans(ctx, s); err != nil {
		return err
	}
	if o.explain {
		if err := explain(a.Stderr, s.Prospects(ctx, sub)); err != nil {
			return err
		}
	}
	if err := a.AddReceivers(&sub); err != nil {
		return err
	}
	submit := func(ctx context.Context, sub submission.Submission) (state.Run, *state.Lock, error) {
		return submission.Submit(ctx, s.Store, sub)
	}
	if o.ifNew {
		submit = func(ctx context.Context, sub submission.Submission) (state.Run, *state.Lock, error) {
			return submitIfNew(ctx, s, sub)
		}
	}
	run, lock, err := submit(ctx, sub)
	if err != nil {
		return err
	}
	if lock == nil {
		return a.printOld(ctx, s, run, o)
	}
	if !o.quiet && !o.detach {
		a.Say("run %s of %s: %s on %s", run.ID, run.Name, console.CountText(sub.Job.Nodes, "node"), siteNames(sub.Sites))
	}
	if !o.quiet {
		if o.detach && o.ticket == "" { // else its controller reports them, here
			a.warnOf(sub.Job.SkippedSites(sub.Sites))
		}
		a.sayOf(ctx, s, &sub)
	}
	return a.carryOut(ctx, s, run, lock, o)
}

// notificationsText is what a user of notifications may not expect.
const notificationsText = "notifications are sent by this machine: while it sleeps or is switched off, none are"

// sayOf prints what the user may not expect of a new run.
func (a *Commands) sayOf(ctx context.Context, s *workspace.Session, sub *submission.Submission) {
	a.warn(ctx, &sub.Job, sub.Sites, sub.Own)
	if len(sub.Notify)+len(sub.Job.Notify) > 0 {
		a.Say("%s", notificationsText)
	}
	if sites := s.Attended(sub); len(sites) > 0 {
		a.Say("%s", attendedText("the", namesOf(sites)))
	}
}

// carryOut carries a new run out, here or in the background.
func (a *Commands) carryOut(ctx context.Context, s *workspace.Session, run state.Run, lock *state.Lock, o runOptions) error {
	switch {
	case o.ticket != "":
		return a.carryToTicket(ctx, s, run, lock, o)
	case o.detach:
		return a.detach(s, run, lock, o)
	}
	defer lock.Unlock()
	s.KeepBinary(ctx)
	s.NotifyBeside(run.ID)
	ui := console.NewProgress(a.Console, o.quiet)
	if o.asJSON {
		ui.Stdout = a.Stderr
	}
	s.Report, s.Output = ui.Report, ui.Output
	defer o.lends.pass(s, ui)()
	watched, stop, done := watchSignals(ctx, s, run.ID, ui)
	defer done()
	ended, err := s.Drive(watched, run.ID, stop)
	ui.Clear()
	if err != nil {
		return a.leave(ctx, s, run, lock, o, err)
	}
	return a.allShown(ui, run.ID, a.ending(ctx, s, ended, o))
}

// leave ends the control of a run that is not over, for the reason that err has.
func (a *Commands) leave(ctx context.Context, s *workspace.Session, run state.Run, lock *state.Lock, o runOptions, err error) error {
	if errors.Is(err, errDetach) {
		return a.detach(s, run, lock, o)
	}
	s.LeaveBehind(ctx, run.ID, lock)
	if errors.Is(err, errLeave) {
		return console.Exit(console.ExitStopped)
	}
	return err
}

// allShown reports where a run's output could not be shown, as on a full disk: then it
// has not gone well, even if the job has.
func (a *Commands) allShown(ui *console.Progress, id string, ending error) error {
	if ui.Lost == nil {
		return ending
	}
	lost := &core.Error{Kind: core.Permanent, Op: "show the output of run", Object: id, Err: ui.Lost, Remedy: "`bee logs " + id + "` shows all of it."}
	if ending == nil {
		return lost
	}
	a.PrintError(lost)
	return ending
}

func (a *Commands) detach(s *workspace.Session, run state.Run, lock *state.Lock, o runOptions) error {
	if err := lock.Unlock(); err != nil {
		return err
	}
	if err := s.Background(run.ID); err != nil {
		return fmt.Errorf("go on in the background with run %s: %w", run.ID, err)
	}
	return a.printDetached(run, o)
}

// printDetached prints what there is to know of a run that continues in the background.
func (a *Commands) printDetached(run state.Run, o runOptions) error {
	if o.asJSON {
		return a.WriteJSON(map[string]string{"id": run.ID, "name": run.Name, "state": string(run.State)})
	}
	_, err := fmt.Fprintln(a.Stdout, run.ID)
	if !o.quiet {
		a.Say("it continues in the background; `bee logs -f %s` follows it, `bee stop %s` ends it", run.ID, run.ID)
	}
	return err
}

// ending reports how the run ended, and makes its exit code ours.
func (a *Commands) ending(ctx context.Context, s *workspace.Session, run state.Run, o runOptions) error {
	if o.asJSON {
		view, err := runview.Of(ctx, s, run)
		if err != nil {
			return err
		}
		if err := a.WriteJSON(view); err != nil {
			return err
		}
	}
	// A task's own failure speaks for itself; what kept it from running, or
	// from ending, must be printed even where quiet is wanted.
	own := run.State == state.Succeeded || run.ExitCode != nil && *run.ExitCode != 0
	if !o.quiet || run.State != state.Stopped && !own {
		a.SayEnding(ctx, run, s)
	}
	if o.quiet {
		if err := a.warnOfOutputs(ctx, s, run.ID); err != nil {
			return err
		}
	}
	var ending error
	if code := workspace.CodeOf(run); code != 0 {
		ending = console.Exit(code)
	}
	return a.Reported(o.results, ending, func() error { return a.records.Results(ctx, s, o.results, []state.Run{run}, false) })
}

// refuseResults refuses files of results where this command does not see how the run ends. A
// run with a ticket may end before that is made.
func (o runOptions) refuseResults() error {
	if !o.detach || o.ticket != "" || !o.results.Wanted() {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "read", Object: "--junit, --summary and --dotenv", Err: errors.New("with -d the command ends before the run"),
		Remedy: "Leave out -d, or give them to `bee wait`.",
	}
}

// warnOfOutputs names outputs that are not in their place, even where quiet is wanted: else
// a script takes the file there for the result.
func (a *Commands) warnOfOutputs(ctx context.Context, s *workspace.Session, id string) error {
	events, err := s.Store.History().Events(ctx, id, event.KindOutputRenamed, event.KindHiddenRenamed)
	if err != nil {
		return err
	}
	for _, e := range events {
		a.Say("%s", report.Sentence(e))
	}
	return nil
}

func siteNames(sites []spec.Site) string {
	if len(sites) == 1 {
		return "site " + sites[0].Name
	}
	return "the first that can take it of sites " + namesOf(sites)
}

func namesOf(sites []spec.Site) string {
	names := make([]string, len(sites))
	for i, s := range sites {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}
