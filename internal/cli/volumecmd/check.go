package volumecmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/spf13/cobra"
)

func (a *Commands) newVolumeCheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check VOLUME", Short: "Compare what a volume has drained with its digests", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeVolumes,
		Long: `Read from the remote all files that were drained through a volume, and compare them
with the digests of what was sent. VOLUME is where it is mounted, its remote or its id.

A file is damaged if its size and time are those that were sent, and its content is
not. It is changed if another program has written it, and missing if it is gone. The
command then ends with an error. Files with undrained changes are not compared.`,
		Example: "  bee volume drain work\n  bee volume check work",
		RunE: func(c *cobra.Command, args []string) error {
			v, err := a.volume(c.Context(), args[0])
			if err != nil {
				return err
			}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			return a.volumeCheck(ctx, v, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) volumeCheck(ctx context.Context, v burst.Config, asJSON bool) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	peer, err := v.Connect(ctx, binary)
	if err != nil {
		return err
	}
	defer peer.Close()
	r, err := v.OpenRemote(catalog.FarVolume)
	if err != nil {
		return err
	}
	defer r.Close()
	defer context.AfterFunc(ctx, r.Stop)()
	line := output.NewStatusLine(a.Stderr)
	inPlace := output.IsTerminal(a.Stderr) && output.IsSmart()
	c, err := burst.Check(ctx, peer, r, func(c burst.Checked) {
		if inPlace {
			line.Show(fmt.Sprintf("%d files, %s compared, %d wrong", c.Files, console.BytesText(c.Bytes), len(c.Wrong)))
		}
	})
	line.Clear()
	if ctx.Err() != nil {
		err = &core.Error{Kind: core.Stopped, Op: "check", Object: v.Remote, Err: errors.New("interrupted"), Remedy: "Give the command again."}
	}
	if err != nil {
		return err
	}
	if asJSON {
		if err := a.WriteJSON(c); err != nil {
			return err
		}
	} else {
		t := a.On(a.Stdout).List()
		for _, w := range c.Wrong {
			t.Row(string(w.Finding), w.Path)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		a.Say("%d files with %s were compared, %d have undrained changes, %d were not written through the volume", c.Files, console.BytesText(c.Bytes), c.Undrained, c.Unknown)
	}
	if len(c.Wrong) > 0 {
		return &core.Error{
			Kind: core.Permanent, Op: "check", Object: v.Remote, Err: fmt.Errorf("%d of %d files differ from what was drained", len(c.Wrong), c.Files),
			Remedy: "Write damaged and missing files again, and look at the remote's disk.",
		}
	}
	return nil
}
