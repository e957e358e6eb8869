package recordcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

type waitOptions struct {
	any     bool
	timeout time.Duration
	asJSON  bool
}

// WaitCommand returns the command `wait`.
func (a *Commands) WaitCommand() *cobra.Command {
	var o waitOptions
	c := &cobra.Command{
		Use: "wait RUN...", Short: "Wait until runs are over", ValidArgsFunction: a.RunsTo(state.ToEnd),
		Long: `Wait until runs are over, and end with the exit code of the first one that did not
succeed, as bee run would. A run that is suspended or set aside is over for this purpose,
as it needs its user. An array means all of its cases. Nothing is stopped when the time is up.`,
		Example: "  bee wait lysozyme\n  bee wait --any --timeout 2h lysozyme salt-water",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.wait(c.Context(), args, o) },
	}
	c.Flags().BoolVar(&o.any, "any", false, "wait for one of them only")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "most `time` to wait, such as 2h (0: no limit)")
	c.Flags().BoolVar(&o.asJSON, "json", false, "write the records of the runs as JSON")
	return c
}

func (a *Commands) wait(ctx context.Context, words []string, o waitOptions) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	runs, err := s.Named(ctx, words, state.ToSee)
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	over, err := s.AwaitEnds(ctx, runs, o.any)
	if err != nil {
		return err
	}
	return a.waited(context.WithoutCancel(ctx), s, over, o)
}

// waited prints how runs ended, and ends as the first that did not succeed.
func (a *Commands) waited(ctx context.Context, s *workspace.Session, runs []state.Run, o waitOptions) error {
	views, code := make([]runview.View, len(runs)), 0
	for i, run := range runs {
		view, err := runview.Of(ctx, s, run)
		if err != nil {
			return err
		}
		views[i] = view
		this := console.CodeOfKind(core.KindNamed(run.Kind))
		if run.ExitCode != nil {
			this = *run.ExitCode
		}
		if code == 0 && run.State != state.Succeeded {
			code = this
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
	if code != 0 {
		return console.Exit(code)
	}
	return nil
}
