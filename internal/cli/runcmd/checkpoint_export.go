package runcmd

import (
	"context"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

func (a *ResumeCommands) newCheckpointExportCommand() *cobra.Command {
	var (
		attempt int
		asJSON  bool
	)
	c := &cobra.Command{
		Use: "export RUN DIRECTORY", Short: "Copy a checkpoint of a run into a new directory, as plain files",
		Long: `Copy the newest checkpoint of a run into a new directory, as plain files. It is
copied from where the run keeps its checkpoints: the submitting machine, a directory,
a host behind ssh or a bucket. The copy is compared with what was kept. A damaged
checkpoint is reported, and the one before is copied. The run is not changed.

The files are as the job left them, without set-user-id and set-group-id bits. Links
may lead anywhere.`,
		Example: "  bee checkpoint export lysozyme ./lysozyme-checkpoint",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: a.RunsTo(state.ToSee),
		RunE: func(c *cobra.Command, args []string) error {
			return a.exportCheckpoint(c.Context(), args[0], args[1], attempt, asJSON)
		},
	}
	c.Flags().IntVar(&attempt, "attempt", 0, "`number` of the attempt whose checkpoint it is (default: the newest checkpoint)")
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *ResumeCommands) exportCheckpoint(ctx context.Context, word, dir string, attempt int, asJSON bool) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	run, err := s.Store.FindRun(ctx, word, state.ToSee)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	k, err := s.ExportCheckpoint(ctx, run, attempt, dir, func(place string) {
		a.Say("warning: the checkpoint %s is damaged; the one before is tried", core.Printable(place, 512))
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.WriteJSON(k)
	}
	a.Say("checkpoint of attempt %d, taken on site %s at %s, is in %s: %s, files: %d", k.Attempt, core.Printable(k.Site, 64),
		k.Taken.Local().Format("2006-01-02 15:04:05"), workspace.ShortPath(dir), console.BytesText(k.Bytes), k.Files)
	return nil
}
