package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

func (a *app) newVMSnapshotCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "snapshot RUN DIRECTORY", Short: "Save all virtual machines of a run together, which then goes on",
		Long: `Save all virtual machines of a run together: they are halted, their memory,
devices and disks are written into a directory, and they go on. The run's
Beefile has vm: and checkpoint: {mode: vm}. A directory may be used again: the
last two are kept. What is in it has everything that the machines knew, secrets
too.`,
		Example: "  bee vm snapshot lysozyme ./saved",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: a.runsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			return a.vmSnapshot(c.Context(), args[0], args[1], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return c
}

func (a *app) vmSnapshot(ctx context.Context, word, dir string, asJSON bool) error {
	s, run, err := a.openRun(ctx, word)
	if err != nil {
		return err
	}
	defer s.close()
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
		return a.writeJSON(kept)
	}
	fmt.Fprintf(a.stderr, "bee: saved in %s: %s; `bee vm restore` brings it up once the run has ended\n", shortPath(dir), bytesText(kept.Bytes))
	return nil
}

func (a *app) newVMRestoreCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use: "restore DIRECTORY", Short: "Bring up the virtual machines that were saved in a directory, as a new run",
		Long: `Bring up the virtual machines that bee vm snapshot has saved in a directory, as
a new run: they go on where they were, on other hosts perhaps. The run that they
were of has to be over, and so has each that was made of them before. The sites are
those of your sites file with the names that the run had, or those of --site. Where
this installation has not saved them, what they do on this machine is shown, and has
to be agreed to.`,
		Example: "  bee vm restore ./saved\n  bee vm restore ./saved --site rack --detach",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.inJSON(o, a.vmRestore(c.Context(), args[0], o)) },
	}
	f := c.Flags()
	f.StringSliceVar(&o.site, "site", nil, "`site` to use in place of those of the run; several with commas, in order of priority")
	f.BoolVarP(&o.detach, "detach", "d", false, "print the run's id and return; it goes on in the background")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing but the task's own output")
	f.BoolVar(&o.asJSON, "json", false, jsonHelp)
	a.siteFlag(c)
	o.trust.flag(f, "what lies in the directory")
	return c
}

func (a *app) vmRestore(ctx context.Context, dir string, o runOptions) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	f := a.foreign(dir, "it was exported", o.trust)
	f.Sites = func(names []string) ([]spec.Site, error) {
		if len(o.site) > 0 {
			names = o.site
		}
		return a.loadSites(&spec.Job{Sites: names}) // of an export only the names count
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	run, lock, err := s.Import(ctx, dir, f)
	if err != nil {
		return err
	}
	return a.carryOut(ctx, s, run, lock, o)
}
