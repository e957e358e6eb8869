package recordcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

type waitOptions struct {
	any     bool
	timeout time.Duration
	asJSON  bool
	follow  bool
	ticket  workspace.Ticket
	results workspace.ResultFiles
}

// WaitCommand returns the command `wait`.
func (a *Commands) WaitCommand() *cobra.Command {
	var o waitOptions
	c := &cobra.Command{
		Use: "wait RUN...", Short: "Wait until runs are over", ValidArgsFunction: a.RunsTo(state.ToEnd),
		Long: `Wait until runs are over, and end with the exit code of the first one that did not
succeed, as bee run would. A run that never began, as another one of them ended otherwise than
it waits for, does not count. A run that is suspended or set aside is over for this purpose,
as it needs its user. An array means all of its cases. Nothing is stopped when the time is up.

With --ticket, adopt the job or jobs of a ticket first, which another machine has submitted:
this machine follows them, fetches their outputs and releases their hosts. It begins jobs that
waited for others. Paths below the directory of the Beefile are below the current directory here.
One machine at a time controls them.

With --junit and --summary, write what became of the runs, for a CI service. JUnit's XML has
one test for each run or case.`,
		Example: "  bee wait lysozyme\n  bee wait --any --timeout 2h lysozyme salt-water\n  bee wait -f --ticket run.ticket --junit results/junit.xml",
		Args:    o.ticket.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.results.Prepare(); err != nil {
				return err
			}
			what := "ticket " + o.ticket.File
			if len(args) > 0 {
				what = strings.Join(args, " ")
			}
			return a.Failure(o.results, what, a.wait(c.Context(), args, o))
		},
	}
	o.ticket.Flags(c, nil)
	c.Flags().BoolVar(&o.any, "any", false, "wait for one of them only")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "most `time` to wait, such as 2h (0: no limit)")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "show the output of the run meanwhile, from its beginning")
	o.results.Flags(c.Flags())
	c.Flags().BoolVar(&o.asJSON, "json", false, "write the records of the runs as JSON")
	return c
}

func (a *Commands) wait(ctx context.Context, words []string, o waitOptions) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	runs, err := a.meant(ctx, s, words, o)
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	shown, err := a.followed(ctx, s, runs, o)
	if err != nil {
		return err
	}
	waits := submission.WaitsOf(runs)
	over, err := s.AwaitUntil(ctx, runs, func(now []state.Run, over int) bool { return o.any && over > 0 || waits.Settled(now) })
	shown(over)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if !o.any && !slices.ContainsFunc(over, func(r state.Run) bool { return r.ID == run.ID }) {
			a.Say("run %s (%s) has not begun: what it waits for needs you first; `bee show %s` shows it", run.ID, output.Printable(run.Name), run.ID)
		}
	}
	return a.waited(context.WithoutCancel(ctx), s, over, o)
}

// meant returns the runs to wait for: those that words name, or those of a ticket.
func (a *Commands) meant(ctx context.Context, s *workspace.Session, words []string, o waitOptions) ([]state.Run, error) {
	if o.ticket.File == "" {
		return s.Named(ctx, words, state.ToSee)
	}
	runs, err := s.Adopt(ctx, o.ticket)
	if err != nil {
		return nil, err
	}
	if what, words := workspace.AdoptedText(runs); words != "" {
		a.Say("adopted: %s; `bee logs -f %s` follows, `bee stop %s` ends", what, words, words)
	}
	return runs, nil
}

// waited prints how runs ended, and ends as the first that did not succeed.
func (a *Commands) waited(ctx context.Context, s *workspace.Session, runs []state.Run, o waitOptions) error {
	never, err := submission.NeverBegan(ctx, s.Store, runs)
	if err != nil {
		return err
	}
	counted := slices.DeleteFunc(slices.Clone(runs), func(r state.Run) bool { return never[r.ID] })
	views, code := make([]runview.View, len(runs)), 0
	for i, run := range runs {
		view, err := runview.Of(ctx, s, run)
		if err != nil {
			return err
		}
		views[i] = view
		if code == 0 && !never[run.ID] {
			code = workspace.CodeOf(run)
		}
		if o.asJSON {
			continue
		}
		if _, err := fmt.Fprintf(a.Stdout, "%s\t%s\t%s\n", run.ID, output.Printable(run.Name), run.State); err != nil {
			return err
		}
		if run.Message != "" {
			a.PrintError(&core.Error{Kind: core.KindNamed(run.Kind), Op: "run", Object: run.ID, Err: errors.New(run.Message), Remedy: run.Remedy})
		}
	}
	if o.asJSON {
		if err := a.WriteJSON(views); err != nil {
			return err
		}
	}
	var ending error
	if code != 0 {
		ending = console.Exit(code)
	}
	return a.Reported(o.results, ending, func() error { return a.WriteResults(ctx, s, o.results, counted, false) })
}

// followed shows the output of the one run that is waited for, if that is wanted. shown waits
// until all of it is shown, or ends this where the run has no more.
func (a *Commands) followed(ctx context.Context, s *workspace.Session, runs []state.Run, o waitOptions) (shown func(over []state.Run), err error) {
	if !o.follow {
		return func([]state.Run) {}, nil
	}
	if o.ticket.File != "" && (len(runs) > 1 || runs[0].Case.Array != "") {
		return a.followedRuns(ctx, runs, o), nil
	}
	if len(runs) != 1 || runs[0].Case.Pack != "" {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "follow", Object: console.CountText(len(runs), "run"), Err: errors.New("--follow is for one run with an output of its own"),
			Remedy: "Leave out --follow; `bee logs -f` shows the output of several.",
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	w := a.Workspace
	if o.asJSON {
		w = a.WritingTo(a.Stderr, a.Stderr)
	}
	done := make(chan error, 1)
	go func() { done <- (&Commands{w}).TaskOutput(ctx, s, runs[0].ID, LogsOptions{Follow: true, tail: -1}) }()
	return func(over []state.Run) {
		if len(over) == 0 || !over[0].State.Final() {
			cancel()
		}
		if err := <-done; err != nil && ctx.Err() == nil {
			a.PrintError(err)
		}
		cancel()
	}, nil
}

// followedRuns shows the output of the runs of a ticket that are not over, each line with the
// name of its run. shown is as for followed.
func (a *Commands) followedRuns(ctx context.Context, runs []state.Run, o waitOptions) (shown func(over []state.Run)) {
	var words []string
	for _, run := range runs {
		if !run.State.Final() {
			words = append(words, run.ID)
		}
	}
	if len(words) == 0 || len(words) > mostFollowed {
		if len(words) > 0 {
			a.Say("the output of %d runs is not shown meanwhile: at most %d are followed at once", len(words), mostFollowed)
		}
		return func([]state.Run) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	w := a.Workspace
	if o.asJSON {
		w = a.WritingTo(a.Stderr, a.Stderr)
	}
	done := make(chan error, 1)
	go func() {
		done <- (&Commands{w}).logsOfSeveral(ctx, words, LogsOptions{Follow: true, tail: -1, Node: -1, fresh: true})
	}()
	return func(over []state.Run) {
		if len(over) == 0 || slices.ContainsFunc(over, func(r state.Run) bool { return !r.State.Final() }) {
			cancel()
		}
		if err := <-done; err != nil && ctx.Err() == nil {
			a.PrintError(err)
		}
		cancel()
	}
}
