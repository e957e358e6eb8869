package cli

import (
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

func (a *app) newPsCommand() *cobra.Command {
	var (
		all, asJSON, ids bool
		limit            int
	)
	c := &cobra.Command{
		Use: "ps", Aliases: []string{"ls"}, Short: "List runs", Args: cobra.NoArgs,
		Long: "List the runs that are not over; with -a all of them, newest first.",
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.openQuietly(c.Context())
			if err != nil {
				return err
			}
			defer s.close()
			runs, err := s.Store.Runs(c.Context(), state.Filter{Active: !all, Limit: limit})
			if err != nil {
				return err
			}
			views := make([]runView, len(runs))
			for i, r := range runs {
				if views[i], err = s.summary(c.Context(), r); err != nil {
					return err
				}
			}
			switch {
			case asJSON:
				if err := a.writeJSON(views); err != nil {
					return err
				}
				return s.warnUnsupervised(c.Context(), func(string) bool { return true })
			case ids:
				for _, v := range views {
					if _, err := fmt.Fprintln(a.stdout, v.ID); err != nil {
						return err
					}
				}
				return nil
			}
			if err := a.listRuns(views); err != nil {
				return err
			}
			return s.warnUnsupervised(c.Context(), func(string) bool { return true })
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also runs that are over")
	c.Flags().IntVar(&limit, "limit", 0, "show at most this `many`, the newest (0: all)")
	c.Flags().BoolVarP(&ids, "quiet", "q", false, "ids only")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func (a *app) listRuns(views []runView) error {
	w := newTable(a.stdout)
	w.row("RUN", "NAME", "STATE", "SITE", "NODES", "STARTED", "TOOK", "EXIT")
	for _, v := range views {
		site, exit := "-", "-"
		if n := len(v.Attempts); n > 0 {
			site = v.Attempts[n-1].Site
		}
		if v.ExitCode != nil {
			exit = fmt.Sprint(*v.ExitCode)
		} else if v.Error != nil {
			exit = v.Error.Kind
		}
		end := time.Now()
		if v.Ended != nil {
			end = *v.Ended
		}
		w.row(v.ID, v.Name, v.State, site, v.Nodes, v.Created.Local().Format(time.DateTime), durationText(end.Sub(v.Created)), exit)
	}
	return w.flush()
}
