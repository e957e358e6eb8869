package nodecmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// RDMACommand returns the command `rdma`.
func (a *Commands) RDMACommand() *cobra.Command {
	c := &cobra.Command{
		Use: "rdma", Short: "Inspect the verbs device bee_0 of a run", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newRDMAStatsCommand())
	return c
}

func (a *Commands) newRDMAStatsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "stats RUN", Short: "Show objects and traffic of a run's device bee_0, by node", Args: cobra.ExactArgs(1), ValidArgsFunction: a.RunsTo(state.ToReach),
		Long: `Show objects and traffic of the device bee_0 in each container of a run with
` + "`rdma: bee`" + `, with operations and bytes of each path. SENDS are the container's messages,
DIRECT its operations on memory of its peers, and STAGED the operations of its peers for
which it copied its own memory. ERRORS are completions with an error, and REFUSED the
requests that the node refused.`,
		RunE: func(c *cobra.Command, args []string) error {
			ports, err := a.readPorts(c.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(ports)
			}
			return writePorts(a.Stdout, ports)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) readPorts(ctx context.Context, word string) ([]core.VerbsPort, error) {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	sub, err := submission.Of(run)
	if err != nil {
		return nil, err
	}
	return gatherPorts(sub.Job.Nodes, func(rank int) ([]core.VerbsPort, error) {
		node, err := s.Node(ctx, run, rank)
		if err != nil {
			return nil, err
		}
		defer node.Close()
		return node.Verbs(ctx)
	})
}

// gatherPorts asks one node of each machine. It is the one with the lowest rank that runs
// the broker, so each node of which nothing is known yet has one.
func gatherPorts(nodes int, read func(rank int) ([]core.VerbsPort, error)) ([]core.VerbsPort, error) {
	all, known := []core.VerbsPort{}, map[int]bool{}
	for rank := range nodes {
		if known[rank] {
			continue
		}
		ports, err := read(rank)
		if err != nil {
			return nil, err
		}
		for _, p := range ports {
			if p.Rank >= nodes || known[p.Rank] {
				return nil, &core.Error{Kind: core.Invalid, Op: "read statistics of", Object: "bee_0", Err: fmt.Errorf("node %d reports on node %d, which is not on its machine", rank, p.Rank), Remedy: core.RemedyVersions}
			}
			known[p.Rank] = true
		}
		all = append(all, ports...)
	}
	slices.SortFunc(all, func(a, b core.VerbsPort) int { return cmp.Compare(a.Rank, b.Rank) })
	return all, nil
}

func writePorts(to io.Writer, ports []core.VerbsPort) error {
	w := output.On(to, output.Auto).List()
	w.Row("NODE", "PROCESSES", "QUEUE PAIRS", "MEMORY", "SENDS", "DIRECT", "STAGED", "FORWARDED", "ERRORS", "REFUSED")
	for _, p := range ports {
		path := func(operations, bytes int64) string {
			return fmt.Sprintf("%d, %s", operations, console.BytesText(bytes))
		}
		w.Row(p.Rank, p.Processes, queuePairs(p), console.BytesText(p.MemoryBytes), path(p.Operations.Sends, p.Bytes.Ring),
			path(p.Operations.Direct(), p.Bytes.Direct), path(p.Operations.Staged, p.Bytes.Staged), console.BytesText(p.Bytes.Forwarded), p.Errors, p.Refusals.Limits+p.Refusals.Keys+p.Refusals.Others)
	}
	return w.Flush()
}

// queuePairs is how many a container has, by the states that there are.
func queuePairs(p core.VerbsPort) string {
	var parts []string
	s := p.States
	for _, of := range []struct {
		count int64
		state string
	}{{s.Reset, "RESET"}, {s.Init, "INIT"}, {s.RTR, "RTR"}, {s.RTS, "RTS"}, {s.SQD, "SQD"}, {s.SQE, "SQE"}, {s.Error, "ERR"}} {
		if of.count > 0 {
			parts = append(parts, fmt.Sprint(of.count, " ", of.state))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "0")
}
