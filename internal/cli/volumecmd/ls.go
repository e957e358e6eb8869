package volumecmd

import (
	"time"

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/spf13/cobra"
)

func (a *Commands) newVolumeLsCommand() *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use: "ls", Short: "List volumes with undrained data, and where these are", Args: cobra.NoArgs,
		Long: `List the volumes of this installation that have undrained data, and the directories
of their buffers. A volume whose buffer is missing is listed, too: its disk may not
be mounted. With --all, drained volumes are listed as well.`,
		Example: "  bee volume ls\n  bee volume ls --all",
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := a.volumesFound(c.Context(), nil)
			if err != nil {
				return err
			}
			list := []runview.Volume{}
			for _, v := range found {
				if all || !v.Drained {
					list = append(list, v)
				}
			}
			if asJSON {
				return a.WriteJSON(list)
			}
			if len(list) == 0 {
				a.Say("no volume of this installation has undrained data")
				return nil
			}
			t := a.On(a.Stdout).List()
			t.Row("VOLUME", "RUN", "REMOTE", "UNDRAINED", "CHANGES", "SINCE", "STATE", "BUFFER")
			for _, v := range list {
				t.Row(volumeRow(v)...)
			}
			return t.Flush()
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "drained volumes, too")
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// volumeRow is a row of the list of volumes.
func volumeRow(v runview.Volume) []any {
	undrained, changes, since := any(console.BytesText(v.Undrained)), any(v.Changes), "-"
	if v.Oldest != nil {
		since = console.DurationText(time.Since(*v.Oldest))
	}
	state := "draining"
	switch {
	case v.Missing:
		state, undrained, changes = "missing", "-", "-"
	case v.Drained:
		state = "drained"
	case v.Superseded:
		state = "superseded"
	case !v.Running:
		state = "dead"
	case v.Refused != nil:
		state = "refused"
	case v.Waits != "":
		state = "waits"
	}
	return []any{v.ID, console.OrDash(v.Run), v.Remote, undrained, changes, since, state, v.Place}
}

func (a *Commands) newVolumeRecoverCommand() *cobra.Command {
	return &cobra.Command{
		Use: "recover VOLUME", Short: "Drain what a dead attempt left on a disk", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeVolumes,
		Long: `Drain what is left of a volume whose processes have died, such as after a restart of
this host, and remove its buffer. VOLUME is its id, its remote, its run, or where it
was mounted. It may also be the directory of a buffer of another installation, on a disk
that was moved to this host. Everything that is needed is on that disk.`,
		Example: "  bee volume recover /mnt/archive/run7\n  bee volume recover /mnt/rescued/bee-volume-1a2b3c4d",
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := a.volumes()
			if err != nil {
				return err
			}
			word := args[0]
			if known, err := a.volume(c.Context(), word); err == nil { // it may be of a run
				word = known.ID
			}
			v, err := mount.Recover(c.Context(), dir, word)
			if err != nil {
				return err
			}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			if v.Sent { // those that were sent are gone
				keys, err := remote.Found(ctx, v.At)
				if err != nil {
					return err
				}
				v.Keys = &keys
			}
			return a.volumeEnd(ctx, v)
		},
	}
}

func (a *Commands) newVolumeForgetCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "forget VOLUME", Short: "Remove the record of a volume whose buffer is missing or superseded", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeVolumes,
		Long: `Remove the record of a volume whose buffer is missing: another installation has
recovered it, or its disk is lost. What the disk has that was not drained is then
found by ` + "`bee volume recover DIRECTORY`" + ` only. Of a superseded volume, whose run has
continued elsewhere, the buffer is removed, too. VOLUME is its id or its remote.`,
		Example: "  bee volume forget /mnt/archive/run7",
		RunE: func(c *cobra.Command, args []string) error {
			v, err := a.volume(c.Context(), args[0])
			if err != nil {
				return err
			}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			return mount.Forget(ctx, v, catalog.FarVolume, force)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "delete what a superseded volume has not drained")
	return cmd
}
