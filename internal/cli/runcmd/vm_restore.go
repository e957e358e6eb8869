package runcmd

import (
	"context"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// VMRestoreCommand returns the command `vm restore`.
func (a *Commands) VMRestoreCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use: "restore DIRECTORY", Short: "Restore saved virtual machines from a directory, as a new run",
		Long: `Restore the virtual machines that bee vm snapshot saved in a directory, as a new
run. The original run must be over, and each other run that was made of them. Sites
are those of your sites file with the original names, or those of --site. If
another installation saved them, each thing that they do on this machine is shown,
and you are asked.`,
		Example: "  bee vm restore ./saved\n  bee vm restore ./saved --site rack --detach",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.inJSON(o, a.vmRestore(c.Context(), args[0], o))
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.site, "site", nil, "`site` to use in place of those of the run; several with commas, in order of priority")
	f.BoolVarP(&o.detach, "detach", "d", false, "print the run's id and continue in the background")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only the task's output")
	f.BoolVar(&o.asJSON, "json", false, console.JSONHelp)
	a.SiteFlag(c)
	o.trust.Flag(f, "the saved machines")
	return c
}

func (a *Commands) vmRestore(ctx context.Context, dir string, o runOptions) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	f := a.Foreign(dir, "it was exported", o.trust)
	f.Sites = func(names []string) ([]spec.Site, error) {
		if len(o.site) > 0 {
			names = o.site
		}
		return a.LoadSites(&spec.Job{Sites: names}) // of an export only the names count
	}
	s, err := a.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	run, lock, err := s.Import(ctx, dir, f)
	if err != nil {
		return err
	}
	return a.carryOut(ctx, s, run, lock, o)
}
