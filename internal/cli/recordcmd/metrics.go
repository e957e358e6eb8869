package recordcmd

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// MetricsCommand returns the command `metrics`.
func (a *Commands) MetricsCommand() *cobra.Command {
	var asJSON, asCSV bool
	c := &cobra.Command{
		Use: "metrics [RUN]", Short: "Print numbers of all runs as OpenMetrics, or those that a run has printed", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.RunsTo(state.ToSee),
		Long: `Print numbers of runs, sites, queues and times as OpenMetrics, for Prometheus and other
monitoring. They are those of the runs on record: bee rm lowers them. It asks no site.

With a run, print the newest progress and metrics that its job has printed, and with --csv
or --json all points that are recorded. The keys progress and metrics of the Beefile have
the patterns by which they are found. --json has what the nodes have used as well.`,
		Example: "  bee metrics\n  bee metrics > /var/lib/prometheus/node-exporter/bee.prom\n  bee metrics --csv lysozyme > lysozyme.csv",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.metricsOf(c.Context(), args[0], asJSON, asCSV)
			}
			if asJSON || asCSV {
				return &core.Error{Kind: core.Invalid, Op: "print metrics", Err: errors.New("--json and --csv are for those of one run"), Remedy: "Name a run, or leave the flag out for OpenMetrics."}
			}
			return a.metrics(c.Context())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write all points of the run as JSON")
	c.Flags().BoolVar(&asCSV, "csv", false, "write all points of the run as CSV")
	c.MarkFlagsMutuallyExclusive("json", "csv")
	return c
}

func (a *Commands) metrics(ctx context.Context) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return a.openMetrics(ctx, s, a.Stdout)
}

// openMetrics writes numbers of all runs on record.
func (a *Commands) openMetrics(ctx context.Context, s *workspace.Session, w io.Writer) error {
	sites, err := a.FindSites()
	if err != nil {
		return err
	}
	var names []string
	priced := map[string]bool{}
	for _, site := range sites.Sites {
		names, priced[site.Name] = append(names, site.Name), site.Price.Amount > 0
	}
	m := report.NewMetrics(a.Version, names, time.Now())
	err = s.Store.EachRun(ctx, func(r state.Run, attempts []state.Attempt) error {
		prices := sync.OnceValue(func() map[string]state.Price { return pricesOf(ctx, s, r.ID) })
		m.Add(r, attempts, func(site string) state.Price {
			if !priced[site] { // the job of a run is large, and is not read for a site that costs nothing
				return state.Price{}
			}
			return prices()[site]
		})
		return nil
	})
	if err != nil {
		return err
	}
	_, err = m.WriteTo(w)
	return err
}

// pricesOf are the prices of sites that a run was submitted with, before attempts had theirs on
// record. A run that cannot be read has none.
func pricesOf(ctx context.Context, s *workspace.Session, id string) map[string]state.Price {
	run, err := s.Store.Run(ctx, id)
	if err != nil {
		return nil
	}
	sub, err := submission.Of(run)
	if err != nil {
		return nil
	}
	return sub.Prices()
}
