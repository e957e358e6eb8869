package volumecmd

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/spf13/cobra"
)

func (a *Commands) newVolumeStatusCommand() *cobra.Command {
	var asJSON, watch bool
	c := &cobra.Command{
		Use: "status [VOLUME]", Short: "Show what a volume has undrained, and what it waits for", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeVolumes,
		Long: `Show the volumes of this host, or one: what is undrained, since when, and what
draining waits for, or why the remote refuses it. Further rows are the rate of
draining and the time that it takes, and how much programs read and write without a
wait for the remote. VOLUME is where it is mounted, its remote, its id, or the run
whose volume it is.`,
		Example: "  bee volume status\n  bee volume status --watch work\n  bee volume status --json melt",
		RunE: func(c *cobra.Command, args []string) error {
			show := func(s *output.Screen) error { return a.volumesShown(c.Context(), s, args) }
			switch {
			case asJSON:
				list, err := a.volumesFound(c.Context(), args)
				if err != nil {
					return err
				}
				if len(args) == 1 {
					return a.WriteJSON(list[0])
				}
				return a.WriteJSON(list)
			case watch:
				return a.Watch(c.Context(), show)
			}
			return show(a.On(a.Stdout))
		},
	}
	c.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until an interrupt")
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	c.MarkFlagsMutuallyExclusive("watch", "json")
	return c
}

// volumesFound gives what volumes say of themselves: that of a directory, or all.
func (a *Commands) volumesFound(ctx context.Context, args []string) ([]runview.Volume, error) {
	all, err := a.allVolumes()
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		one, err := a.volume(ctx, args[0])
		if err != nil {
			return nil, err
		}
		all = []burst.Config{one}
	}
	list := []runview.Volume{}
	for _, c := range all {
		v, err := runview.VolumeOf(ctx, c)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (a *Commands) volumesShown(ctx context.Context, screen *output.Screen, args []string) error {
	list, err := a.volumesFound(ctx, args)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		screen.Say("no volume is mounted or undrained on this host")
		return nil
	}
	for i, v := range list {
		if i > 0 {
			if _, err := fmt.Fprintln(screen); err != nil {
				return err
			}
		}
		t := screen.Prose()
		t.Row("volume", v.ID)
		if v.Run != "" {
			t.Row("run", v.Run)
		}
		t.Row("remote", v.Remote)
		if v.Mount != "" {
			t.Row("mounted at", v.Mount)
		}
		v.Rows(func(name, text string) { t.Row(name, text) })
		t.Row("buffer", fmt.Sprintf("%s of %s at %s", console.BytesText(v.Buffer), console.BytesText(v.Room), v.Place))
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
