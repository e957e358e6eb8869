package cli

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

func (a *app) newFabricCommand() *cobra.Command {
	c := &cobra.Command{Use: "fabric", Short: "Look into the network between a run's virtual machines", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(a.newFabricStatsCommand())
	return c
}

func (a *app) newFabricStatsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "stats RUN", Short: "Show what has passed the switches of a run, and what was dropped", Args: cobra.ExactArgs(1), ValidArgsFunction: a.runsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			var all []fabric.Stats
			for i := 0; i == 0 || i <= len(all[0].Peers); i++ {
				rank := 0
				if i > 0 {
					rank = all[0].Peers[i-1].Rank
				}
				node, done, err := a.dialNode(c.Context(), args[0], rank)
				if err != nil {
					return err
				}
				s, err := node.Fabric(c.Context())
				done()
				if err != nil {
					return err
				}
				all = append(all, s)
			}
			if asJSON {
				return a.writeJSON(all)
			}
			w := newTable(a.stdout)
			w.row("NODE", "TO", "UP", "SENT", "RECEIVED", "DROPPED")
			for _, s := range all {
				w.row(s.Rank, countText(s.Guests, "guest"), "yes", bytesText(s.ToBytes), bytesText(s.FromBytes), fmt.Sprint(s.Dropped, " frames"))
				for _, p := range s.Peers {
					up := "no"
					if p.Up {
						up = "yes"
					}
					w.row(s.Rank, fmt.Sprint("node ", p.Rank), up, bytesText(p.SentBytes), bytesText(p.ReceivedBytes), fmt.Sprint(p.Dropped, " frames"))
				}
			}
			return w.flush()
		}}
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return c
}
