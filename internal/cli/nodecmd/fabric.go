package nodecmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// FabricCommand returns the command `fabric`.
func (a *Commands) FabricCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "fabric", Short: "Inspect the network between a run's virtual machines", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newFabricStatsCommand())
	return c
}

func (a *Commands) newFabricStatsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "stats RUN", Short: "Show the traffic and dropped frames of a run's switches", Args: cobra.ExactArgs(1), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := readSwitches(func(rank int) (fabric.Stats, error) {
				node, done, err := a.DialNode(c.Context(), args[0], rank)
				if err != nil {
					return fabric.Stats{}, err
				}
				defer done()
				return node.Fabric(c.Context())
			})
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(all)
			}
			return writeSwitches(a.Stdout, all)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// readSwitches asks node 0's switch, and then each one that another switch names.
func readSwitches(read func(rank int) (fabric.Stats, error)) ([]fabric.Stats, error) {
	var all []fabric.Stats
	for ranks := []int{0}; len(all) < len(ranks); {
		s, err := read(ranks[len(all)])
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		for _, p := range s.Peers {
			if !slices.Contains(ranks, p.Rank) {
				ranks = append(ranks, p.Rank)
			}
		}
	}
	slices.SortFunc(all, func(a, b fabric.Stats) int { return cmp.Compare(a.Rank, b.Rank) })
	return all, nil
}

func writeSwitches(to io.Writer, all []fabric.Stats) error {
	w := output.On(to, output.Auto).List()
	w.Row("NODE", "TO", "UP", "SENT", "A SECOND", "RECEIVED", "A SECOND", "DROPPED")
	for _, s := range all {
		for _, p := range s.Ports {
			w.Row(s.Rank, fmt.Sprint("guest ", p.Rank), "yes", console.BytesText(p.ToBytes), console.BytesText(p.ToBytesPerSecond),
				console.BytesText(p.FromBytes), console.BytesText(p.FromBytesPerSecond), console.CountText(int(p.Dropped), "frame"))
		}
		for _, p := range s.Peers {
			up := "no"
			if p.Up {
				up = "yes"
			}
			if p.Connections > 1 {
				up = fmt.Sprint("by ", p.Connections)
			}
			if p.Unencrypted > 0 {
				up += ", in clear"
			}
			w.Row(s.Rank, fmt.Sprint("node ", p.Rank), up, console.BytesText(p.SentBytes), console.BytesText(p.SentBytesPerSecond),
				console.BytesText(p.ReceivedBytes), console.BytesText(p.ReceivedBytesPerSecond), console.CountText(int(p.Dropped), "frame"))
		}
	}
	return w.Flush()
}
