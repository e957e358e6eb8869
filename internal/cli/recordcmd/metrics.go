package recordcmd

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// MetricsCommand returns the command `metrics`.
func (a *Commands) MetricsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "metrics", Short: "Print numbers of runs, sites, queues and times as OpenMetrics", Args: cobra.NoArgs,
		Long: `Print numbers of runs, sites, queues and times as OpenMetrics, for Prometheus and other
monitoring. They are those of the runs on record: bee rm lowers them. It asks no site.`,
		Example: "  bee metrics\n  bee metrics > /var/lib/prometheus/node-exporter/bee.prom",
		RunE:    func(c *cobra.Command, _ []string) error { return a.metrics(c.Context()) },
	}
}

func (a *Commands) metrics(ctx context.Context) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	sites, err := a.FindSites()
	if err != nil {
		return err
	}
	var names []string
	for _, site := range sites.Sites {
		names = append(names, site.Name)
	}
	m := report.NewMetrics(a.Version, names, time.Now())
	runs, err := s.Store.Runs(ctx, state.Filter{})
	if err != nil {
		return err
	}
	attempts, err := s.Store.AllAttempts(ctx)
	if err != nil {
		return err
	}
	for _, r := range runs {
		var prices map[string]float64
		if sub, err := control.SubmissionOf(r); err == nil {
			prices = sub.Prices()
		}
		m.Add(r, attempts[r.ID], prices)
	}
	_, err = m.WriteTo(a.Stdout)
	return err
}
