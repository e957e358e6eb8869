package runcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// askedView is a run of which something was asked, as --json prints it.
type askedView struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	State state.RunState `json:"state"`
	// GoesOn reports whether the job continues where it is after its checkpoint. Else it writes
	// its checkpoint and ends, and the run continues in another attempt.
	GoesOn *bool `json:"goes_on,omitempty"`
}

// printAsked writes what was asked of which run, as it was then, where that is wanted as
// JSON.
func (a *ResumeCommands) printAsked(asJSON bool, run state.Run, goesOn *bool, err error) error {
	if err != nil || !asJSON {
		return New(a.Workspace, Records{}).inJSON(runOptions{asJSON: asJSON}, err)
	}
	return a.WriteJSON(askedView{run.ID, run.Name, run.State, goesOn})
}

// CheckpointCommand returns the command `checkpoint`.
func (a *ResumeCommands) CheckpointCommand() *cobra.Command {
	var (
		asJSON bool
		seen   workspace.Seen
	)
	c := &cobra.Command{
		Use: "checkpoint RUN", Short: "Take a checkpoint of a run now",
		Long: `Take a checkpoint of a run now. Where the Beefile allows it, the job continues
meanwhile. The method depends on the Beefile's checkpoint:

  mode: vm        the virtual machines are halted while they are saved
  command:        it is run, and the files that the job writes are copied
  every:          the files that the job wrote last are copied
  otherwise       the job gets its signal or its stop file, writes its checkpoint
                  and ends; the run continues in another attempt, on the next
                  site that can take it

"bee move" continues the run on another site in each case.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			run, goesOn, err := a.checkpoint(c.Context(), args[0], seen)
			return a.printAsked(asJSON, run, &goesOn, err)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	seen.Flag(c.Flags())
	c.AddCommand(a.newCheckpointExportCommand())
	return c
}

// checkpoint reports which run one is taken, and whether its job continues where it is.
func (a *ResumeCommands) checkpoint(ctx context.Context, word string, seen workspace.Seen) (run state.Run, goesOn bool, err error) {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return run, false, err
	}
	defer s.Close()
	head, attempt, err := headOfRun(ctx, s, run)
	if err != nil {
		return run, false, err
	}
	defer head.Close()
	kept := 0
	err = seen.Requests(s).Checkpoint(ctx, run, attempt, saver(ctx, s, run, attempt, head, false, &kept))
	switch {
	case err != nil:
		return run, false, err
	case kept > 0:
		a.Say("a checkpoint is sent to this machine now, and the job continues; `bee show %s` lists it once it is here", word)
	default:
		a.Say("the job is asked to write its checkpoint and to end, and continues in another attempt; `bee show %s` shows it", word)
	}
	return run, kept > 0, nil
}

// MoveCommand returns the command `move`.
func (a *ResumeCommands) MoveCommand() *cobra.Command {
	var (
		sites  []string
		asJSON bool
		seen   workspace.Seen
	)
	c := &cobra.Command{
		Use: "move RUN", Short: "Ask a run for a checkpoint now, and continue it on another site",
		Long: `Ask a run for a checkpoint now, as before its time slot ends. The job gets the
signal that the Beefile names, and its volume is transferred. The run continues on
the next site that can take it, or on those of --site. With
checkpoint: {mode: vm} the virtual machines are saved and resume there.

A run that waits in a queue, or for any site, is sent to the sites of --site.
An array means its cases that run, and with --site also those that wait.`,
		Example: "  bee move lysozyme\n  bee move lysozyme --site rack",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			cases, err := a.casesToMove(c.Context(), args[0], len(sites) > 0)
			switch {
			case err != nil:
				return a.printAsked(asJSON, state.Run{}, nil, err)
			case len(cases) > 0 && seen.Given():
				return a.printAsked(asJSON, state.Run{}, nil, &core.Error{Kind: core.Invalid, Op: "move", Object: args[0], Err: errors.New("--attempt is of one run, and this is an array"), Remedy: "Name one case, or leave --attempt out."})
			case len(cases) > 0:
				return a.moveCases(c.Context(), cases, sites, asJSON)
			}
			run, err := a.move(c.Context(), args[0], sites, seen)
			return a.printAsked(asJSON, run, nil, err)
		},
	}
	c.Flags().StringSliceVar(&sites, "site", nil, "`site` to try first; several with commas")
	a.SiteFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	seen.Flag(c.Flags())
	return c
}

func (a *ResumeCommands) move(ctx context.Context, word string, names []string, seen workspace.Seen) (state.Run, error) {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return run, err
	}
	defer s.Close()
	var sites []spec.Site
	if len(names) > 0 {
		if sites, err = a.LoadSites(&spec.Job{Sites: names}); err != nil {
			return run, err
		}
	}
	head, attempt, err := headOfRun(ctx, s, run)
	switch {
	case core.IsKind(err, core.NotFound) && len(sites) > 0 && !run.State.Final() && run.State != state.Suspended:
		return run, a.sendElsewhere(ctx, s, run, sites, seen)
	case err != nil:
		return run, err
	}
	defer head.Close()
	if err := seen.Requests(s).Move(ctx, run, attempt, sites, saver(ctx, s, run, attempt, head, true, new(int))); err != nil {
		return run, err
	}
	a.Say("the job is asked to write its checkpoint and to end; `bee show %s` shows how it continues", word)
	return run, nil
}

// headOfRun connects to the head of a run's present attempt, whose number it returns.
func headOfRun(ctx context.Context, s *workspace.Session, run state.Run) (*client.Client, int, error) {
	conn, attempt, err := s.DialHead(ctx, run)
	if err != nil {
		return nil, attempt, err
	}
	c, err := client.New(conn)
	return c, attempt, err
}

// saver returns a function that asks the head of one attempt of a run for a checkpoint, see
// control.Controller.Checkpoint. The number of what was kept goes to kept.
func saver(ctx context.Context, s *workspace.Session, run state.Run, attempt int, head *client.Client, move bool, kept *int) func() error {
	return func() (err error) {
		defer func() { head = nil }()
		if head == nil {
			now, n, err := headOfRun(ctx, s, run)
			if err != nil {
				return err
			}
			defer now.Close()
			if n != attempt {
				return &core.Error{Kind: core.NotFound, Op: "ask for a checkpoint of run", Object: run.ID, Err: fmt.Errorf("attempt %d is over", attempt), Remedy: "`bee show " + run.ID + "` prints which attempt is the last one."}
			}
			head = now
		}
		*kept, err = head.Save(ctx, move)
		return err
	}
}
