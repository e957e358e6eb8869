package cli

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

func (a *app) newCheckpointCommand() *cobra.Command {
	return &cobra.Command{Use: "checkpoint RUN", Short: "Have a run save itself now, and go on in another attempt",
		Long: `Have a run save itself now, as it does before its time slot ends: the job gets
the signal that the Beefile names, its volume comes home, and the run goes on
from there on the next site that can take it. With checkpoint: {mode: vm} the
job is not asked: its virtual machines are saved as they are.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.runsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error { return a.checkpoint(c.Context(), args[0]) }}
}

func (a *app) checkpoint(ctx context.Context, word string) error {
	node, done, err := a.dialNode(ctx, word, 0)
	if err != nil {
		return err
	}
	defer done()
	if err := node.Save(ctx); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "bee: the job is asked to save itself; `bee show %s` tells how it goes on\n", word)
	return nil
}
