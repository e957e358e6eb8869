package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

type waitOptions struct {
	any     bool
	timeout time.Duration
	asJSON  bool
}

// waitLook is how often bee wait looks at the records.
const waitLook = 250 * time.Millisecond

func (a *app) newWaitCommand() *cobra.Command {
	var o waitOptions
	c := &cobra.Command{
		Use: "wait RUN...", Short: "Wait until runs are over", ValidArgsFunction: a.runsTo(state.ToEnd),
		Long: `Wait until runs are over, and end with the exit code of the first one that did not
succeed, as bee run would. A run that is suspended or set aside is over for this purpose,
as it needs its user. Nothing is stopped when the time is up.`,
		Example: "  bee wait lysozyme\n  bee wait --any --timeout 2h lysozyme salt-water",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.wait(c.Context(), args, o) },
	}
	c.Flags().BoolVar(&o.any, "any", false, "wait for one of them only")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "most `time` to wait, such as 2h (0: no limit)")
	c.Flags().BoolVar(&o.asJSON, "json", false, "write the records of the runs as JSON")
	return c
}

func (a *app) wait(ctx context.Context, words []string, o waitOptions) error {
	s, err := a.openQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	runs, err := s.named(ctx, words, state.ToSee)
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	over, err := s.awaitEnds(ctx, runs, o.any)
	if err != nil {
		return err
	}
	return a.waited(context.WithoutCancel(ctx), s, over, o)
}

// awaitEnds returns the runs that are over, once all are, or one of them.
func (s *session) awaitEnds(ctx context.Context, runs []state.Run, one bool) ([]state.Run, error) {
	for {
		var over []state.Run
		var waiting string
		for i := range runs {
			run, err := s.Store.Run(ctx, runs[i].ID)
			if err != nil {
				return nil, waitError(ctx, runs[i].ID, err)
			}
			if run.State.Final() || run.State.Resumable() {
				over = append(over, run)
			} else {
				waiting = run.ID
			}
		}
		if len(over) == len(runs) || one && len(over) > 0 {
			return over, nil
		}
		select {
		case <-time.After(waitLook):
		case <-ctx.Done():
			return nil, waitError(ctx, waiting, ctx.Err())
		}
	}
}

// waitError is why the end of a run was not seen.
func waitError(ctx context.Context, run string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &core.Error{Kind: core.Busy, Op: "wait for run", Object: run, Err: errors.New("the time is up, and it is not over"), Remedy: fmt.Sprintf("`bee show %s` shows what it does. It continues.", run)}
	}
	return err
}

// waited prints how runs ended, and ends as the first that did not succeed.
func (a *app) waited(ctx context.Context, s *session, runs []state.Run, o waitOptions) error {
	views, code := make([]runView, len(runs)), 0
	for i, run := range runs {
		view, err := s.view(ctx, run)
		if err != nil {
			return err
		}
		views[i] = view
		this := codeOfKind(core.KindNamed(run.Kind))
		if run.ExitCode != nil {
			this = *run.ExitCode
		}
		if code == 0 && run.State != state.Succeeded {
			code = this
		}
		if o.asJSON {
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "%s\t%s\t%s\n", run.ID, printable(run.Name), run.State); err != nil {
			return err
		}
		if run.Message != "" {
			a.printError(&core.Error{Kind: core.KindNamed(run.Kind), Op: "run", Object: run.ID, Err: errors.New(run.Message), Remedy: run.Remedy})
		}
	}
	if o.asJSON {
		if err := a.writeJSON(views); err != nil {
			return err
		}
	}
	if code != 0 {
		return exitError{code}
	}
	return nil
}
