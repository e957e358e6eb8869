package cli

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

func (a *app) newResumeCommand() *cobra.Command {
	var sites []string
	c := &cobra.Command{Use: "resume RUN", Short: "Go on with a suspended run from its checkpoint",
		Long: `Go on with a run that is suspended: no site could take it any more, and its
checkpoint is at home. It goes on in the background.`,
		Example: "  bee resume lysozyme\n  bee resume lysozyme --site rack",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeRuns,
		RunE: func(c *cobra.Command, args []string) error { return a.resume(c.Context(), args[0], sites) }}
	c.Flags().StringSliceVar(&sites, "site", nil, "`site` to try first; several with commas")
	return c
}

func (a *app) resume(ctx context.Context, word string, names []string) error {
	s, err := a.openQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	run, err := s.Store.FindRun(ctx, word)
	if err != nil {
		return err
	}
	var sites []spec.Site
	if len(names) > 0 {
		if sites, err = a.loadSites(&spec.Job{Sites: names}); err != nil {
			return err
		}
	}
	lock, err := s.Store.Lock(run.ID) // nobody else shall carry it on meanwhile
	if err != nil {
		return err
	}
	run, err = s.Resume(ctx, run, sites)
	if uerr := lock.Unlock(); err == nil {
		err = uerr
	}
	if err != nil {
		return err
	}
	if err := s.background(run.ID); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "bee: run %s goes on in the background; `bee logs -f %s` follows it\n", run.ID, run.ID)
	return nil
}
