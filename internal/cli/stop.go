package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

func (a *app) newStopCommand() *cobra.Command {
	var noWait, all bool
	c := &cobra.Command{Use: "stop RUN...", Short: "End runs cleanly", ValidArgsFunction: a.completeRuns,
		Long: `End runs: the task gets TERM, after a grace KILL; outputs that are there come
home; hosts are given back.`,
		Args: cobra.MinimumNArgs(0),
		RunE: func(c *cobra.Command, args []string) error { return a.stop(c.Context(), args, all, noWait) }}
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the end")
	c.Flags().BoolVar(&all, "all", false, "every run that is not over")
	return c
}

func (a *app) stop(ctx context.Context, words []string, all, noWait bool) error {
	s, err := a.openQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	runs, err := s.named(ctx, words, all)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.State.Final() {
			fmt.Fprintf(a.stderr, "bee: run %s is over already (%s)\n", run.ID, run.State)
			continue
		}
		if err := s.Store.AskStop(ctx, run.ID); err != nil {
			return err
		}
		if err := s.nudge(run.ID); err != nil {
			return err
		}
	}
	if noWait {
		return nil
	}
	for _, run := range runs {
		if run, err = s.awaitEnd(ctx, run); err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "bee: run %s: %s\n", run.ID, run.State)
	}
	return nil
}

// named gives the runs that the arguments of a command mean.
func (s *session) named(ctx context.Context, words []string, all bool) ([]state.Run, error) {
	if all {
		return s.Store.Runs(ctx, state.Filter{Active: true})
	}
	if len(words) == 0 {
		return nil, &core.Error{Kind: core.Invalid, Op: "read arguments", Err: fmt.Errorf("no run named"), Remedy: "Name one, or give --all."}
	}
	runs := make([]state.Run, len(words))
	for i, w := range words {
		var err error
		if runs[i], err = s.Store.FindRun(ctx, w); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// nudge makes a run's controller look at the record; a run without one gets
// a new controller, which looks first of all.
func (s *session) nudge(id string) error {
	if told, err := s.Store.Nudge(id); err != nil || told {
		return err
	}
	return s.background(id)
}

// awaitEnd waits until a run is over.
func (s *session) awaitEnd(ctx context.Context, run state.Run) (state.Run, error) {
	for wait := time.Millisecond; !run.State.Final(); wait = min(2*wait, 200*time.Millisecond) {
		if err := pause(ctx, wait); err != nil {
			return run, err
		}
		var err error
		if run, err = s.Store.Run(ctx, run.ID); err != nil {
			return run, err
		}
		if !run.State.Final() && wait > 100*time.Millisecond && !s.Store.Controlled(run.ID) {
			if err := s.background(run.ID); err != nil { // its controller died under us
				return run, err
			}
		}
	}
	return run, nil
}
