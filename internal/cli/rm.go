package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

type rmOptions struct {
	force    bool
	finished bool
	leave    bool
	asJSON   bool
}

func (a *app) newRmCommand() *cobra.Command {
	var o rmOptions
	c := &cobra.Command{
		Use: "rm RUN...", Short: "Forget runs that are over", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.runsTo(state.ToForget),
		Long: `Forget runs: their records, logs and checkpoints. Their results, wherever they
were brought, stay. A run of which a site may still hold something is kept until
that is removed. A run that has the only copy of something, such as a volume of
which no output was there, or checkpoints of a run that did not succeed, is kept
unless --force is given. A run is named by its id, by four or more letters that the id
begins with, or by a name that no other run has.`,
		RunE: func(c *cobra.Command, args []string) error { return a.rm(c.Context(), args, o) },
	}
	c.Flags().BoolVarP(&o.force, "force", "f", false, "stop a run that is not over first, remove what exists nowhere else, and leave behind what a site does not give back")
	c.Flags().BoolVar(&o.leave, "leave-store", false, "leave what is in a store of checkpoints, such as one that is gone")
	c.Flags().BoolVar(&o.finished, "finished", false, "every run that is over")
	c.Flags().BoolVar(&o.asJSON, "json", false, jsonHelp)
	return c
}

func (a *app) rm(ctx context.Context, words []string, o rmOptions) error {
	if err := namesOr("--finished", o.finished, words); err != nil {
		return err
	}
	s, err := a.openQuietly(ctx) // what these runs have left on sites is removed here, not in the background
	if err != nil {
		return err
	}
	defer s.close()
	s.Report = newProgress(a, false).report
	var runs []state.Run
	if o.finished {
		runs, err = s.Store.Runs(ctx, state.Filter{})
	} else {
		runs, err = s.named(ctx, words, state.ToForget)
	}
	if err != nil {
		return err
	}
	var live []state.Run
	runs = slices.DeleteFunc(runs, func(run state.Run) bool {
		if !run.State.Final() {
			live = append(live, run)
		}
		return !run.State.Final()
	})
	t := a.newTally(o.asJSON)
	switch {
	case o.finished || len(live) == 0:
	case o.force:
		s.end(ctx, live, stopOptions{}, func(run state.Run, err error) {
			if err != nil {
				t.removed(run.ID, err)
				return
			}
			runs = append(runs, run)
		})
	default:
		run := live[0]
		return &core.Error{
			Kind: core.Busy, Op: "remove run", Object: run.ID, Err: fmt.Errorf("it is %s", run.State),
			Remedy: "`bee stop " + run.ID + "` ends it first, or give --force: nothing was removed.",
		}
	}
	for _, run := range runs {
		t.removed(run.ID, s.Forget(ctx, run, control.Leaving{Sites: o.force, Store: o.leave, OnlyCopies: o.force}))
	}
	return t.end()
}
