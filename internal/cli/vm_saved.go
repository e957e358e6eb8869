package cli

import (
	"context"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

func (a *vmCommands) newVMSnapshotCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "snapshot RUN DIRECTORY", Short: "Save all virtual machines of a run together, and continue it",
		Long: `Save all virtual machines of a run together. They are halted, their memory,
devices and disks are written to a directory, and they continue. The run's Beefile
needs vm: and checkpoint: {mode: vm}. A directory keeps the last two snapshots.
They contain all memory of the machines, secrets too.`,
		Example: "  bee vm snapshot lysozyme ./saved",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			return a.vmSnapshot(c.Context(), args[0], args[1], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *vmCommands) vmSnapshot(ctx context.Context, word, dir string, asJSON bool) error {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return err
	}
	defer s.Close()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	kept, err := s.Export(ctx, run, dir, func(into string) error {
		conn, err := s.DialNode(ctx, run, 0)
		if err != nil {
			return err
		}
		node, err := client.New(conn)
		if err != nil {
			return err
		}
		defer node.Close()
		return node.Snapshot(ctx, into)
	})
	if err != nil {
		return err
	}
	if asJSON {
		return a.WriteJSON(kept)
	}
	a.Say("saved in %s: %s; `bee vm restore` brings it up once the run has ended", workspace.ShortPath(dir), console.BytesText(kept.Bytes))
	return nil
}

func (a *vmCommands) newVMRestoreCommand() *cobra.Command {
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
			return newRunCommands(a.Workspace).inJSON(o, a.vmRestore(c.Context(), args[0], o))
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

func (a *vmCommands) vmRestore(ctx context.Context, dir string, o runOptions) error {
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
	return newRunCommands(a.Workspace).carryOut(ctx, s, run, lock, o)
}
