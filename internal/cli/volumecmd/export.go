package volumecmd

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/spf13/cobra"
)

func (a *Commands) newVolumeExportCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "export VOLUME DIR", Short: "Save undrained data of a volume in a directory", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeVolumes,
		Long: `Write the files of which a volume has undrained changes into the directory DIR, which
must be empty or new. The buffer stays as it is. This saves what a superseded volume
has: one of an attempt that was lost, whose run has continued elsewhere. Afterwards
` + "`bee volume forget --force VOLUME`" + ` removes its buffer. No process may use the volume.
VOLUME is its id, its remote, its run, or where it was mounted.`,
		Example: "  bee volume export 1a2b3c4d saved",
		RunE: func(c *cobra.Command, args []string) error {
			v, err := a.volume(c.Context(), args[0])
			if err != nil {
				return err
			}
			lock, err := v.Lock()
			if err != nil {
				return err
			}
			defer lock.Unlock()
			if err := fsutil.MkdirAll(args[1], 0o777); err != nil {
				return err
			}
			if list, err := os.ReadDir(args[1]); err != nil || len(list) > 0 {
				return errors.Join(err, &core.Error{Kind: core.Invalid, Op: "export to", Object: args[1], Err: errors.New("it is not empty"), Remedy: "Name an empty or a new directory."})
			}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			x, err := burst.Export(ctx, v.Place, args[1])
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(x)
			}
			slices.Sort(x.Absent)
			for _, name := range x.Absent {
				a.Say("%s has undrained changes of its attributes or name only; its content is on the remote", output.Printable(name))
			}
			_, err = fmt.Fprintf(a.Stdout, "%d files, %s\n", x.Files, console.BytesText(x.Bytes))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}
