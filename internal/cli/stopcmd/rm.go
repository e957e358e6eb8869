package stopcmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
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
	older    console.Age
}

// many reports whether runs are chosen without names.
func (o rmOptions) many() bool { return o.finished || o.older > 0 }

// RmCommand returns the command `rm`.
func (a *Commands) RmCommand() *cobra.Command {
	var o rmOptions
	c := &cobra.Command{
		Use: "rm RUN...", Short: "Remove runs that are over", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.RunsTo(state.ToForget),
		Example: "  bee rm lysozyme\n  bee rm --older-than 30d",
		Long: `Remove runs: their records, logs and checkpoints. Collected results stay. A run is
kept as long as a site may have files of it. Without --force, a run is kept that
has the only copy of something. Examples are the volume of a run without outputs,
and checkpoints of a run that did not succeed. RUN is an id, its first letters (four
or more), or a name that no other run has. An array means all of its cases.`,
		RunE: func(c *cobra.Command, args []string) error { return a.rm(c.Context(), args, o) },
	}
	c.Flags().BoolVarP(&o.force, "force", "f", false, "stop a run first if it is not over; remove only copies; leave what a site does not release")
	c.Flags().BoolVar(&o.leave, "leave-store", false, "leave checkpoints in their store, for example a store that is lost")
	c.Flags().BoolVar(&o.finished, "finished", false, "every run that is over")
	c.Flags().Var(&o.older, "older-than", "every run that has been over for longer than this `time`, such as 7d")
	c.Flags().BoolVar(&o.asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) rm(ctx context.Context, words []string, o rmOptions) error {
	if err := namesOr("--finished or --older-than", o.many(), words); err != nil {
		return err
	}
	s, err := a.OpenQuietly(ctx) // what these runs have left on sites is removed here, not in the background
	if err != nil {
		return err
	}
	defer s.Close()
	s.Report = console.NewProgress(a.Console, false).Report
	var runs []state.Run
	if o.many() {
		runs, err = s.Store.Runs(ctx, state.Filter{})
	} else {
		runs, err = s.Named(ctx, words, state.ToForget)
	}
	if err != nil {
		return err
	}
	var live, packed []state.Run
	runs = slices.DeleteFunc(runs, func(run state.Run) bool {
		if !run.State.Final() && run.Case.Pack != "" {
			packed = append(packed, run)
		} else if !run.State.Final() {
			live = append(live, run)
		}
		return !run.State.Final() || o.older > 0 && time.Since(run.Ended) < time.Duration(o.older)
	})
	t := a.NewTally(o.asJSON)
	switch {
	case o.many() || len(live)+len(packed) == 0:
	case o.force:
		endRuns(ctx, s, live, stopOptions{}, func(run state.Run, err error) {
			if err != nil {
				t.Removed(run.ID, err)
				return
			}
			runs = append(runs, run)
		})
		for _, run := range packed { // those that have ended with their packs
			if run, err = s.Store.Run(ctx, run.ID); err != nil {
				return err
			}
			if run.State.Final() {
				runs = append(runs, run)
				continue
			}
			t.Removed(run.ID, &core.Error{
				Kind: core.Busy, Op: "remove run", Object: run.ID, Err: fmt.Errorf("it is %s, on the hosts of run %s", run.State, run.Case.Pack),
				Remedy: "`bee stop " + run.Case.Pack + "` ends all cases there first.",
			})
		}
	default:
		run := append(live, packed...)[0]
		return &core.Error{
			Kind: core.Busy, Op: "remove run", Object: run.ID, Err: fmt.Errorf("it is %s", run.State),
			Remedy: "Nothing was removed. `bee stop " + run.ID + "` ends it first; --force does both.",
		}
	}
	for _, run := range runs {
		t.Removed(run.ID, s.Garbage().Forget(ctx, run, control.Leaving{Sites: o.force, Store: o.leave, OnlyCopies: o.force}))
	}
	return t.End()
}
