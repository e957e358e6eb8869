package volumecmd

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/spf13/cobra"
)

func (a *Commands) newVolumePrefetchCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "prefetch VOLUME PATTERN...", Short: "Copy files into the buffer before they are read", Args: cobra.MinimumNArgs(2), ValidArgsFunction: a.completeVolumes,
		Long: `Copy files of the remote that match a pattern into the buffer, so that programs read
them from this host's disk. A pattern begins at the top of the volume. A directory that
matches is copied with all that is in it; "." is everything. Files that would fill the
buffer are left. VOLUME is where it is mounted, its remote, its id, or its run.`,
		Example: "  bee volume prefetch work 'input/*.nc'",
		RunE: func(c *cobra.Command, args []string) error {
			v, err := a.volume(c.Context(), args[0])
			if err != nil {
				return err
			}
			var globs []string
			for _, text := range args[1:] {
				glob := path.Clean(text)
				if _, err := path.Match(glob, ""); err != nil || !filepath.IsLocal(glob) {
					return &core.Error{Kind: core.Invalid, Op: "read pattern", Object: fmt.Sprintf("%q", text), Err: errors.New("it is no pattern of names in the volume"), Remedy: "Such as input/*.nc, from the top of the volume on."}
				}
				globs = append(globs, glob)
			}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			peer, err := v.Dial(ctx)
			if err != nil {
				return &core.Error{Kind: core.Invalid, Op: "prefetch into volume", Object: v.ID, Err: err, Remedy: "Mount it first: `bee volume mount`."}
			}
			defer peer.Close()
			p, err := rpc.Call(ctx, peer, calls.Prefetch, calls.PrefetchRequest{Globs: globs})
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(p)
			}
			if p.Left > 0 {
				a.Say("%d files were left: the buffer has no room for them, or they could not be read", p.Left)
			}
			_, err = fmt.Fprintf(a.Stdout, "%d files, %s\n", p.Files, console.BytesText(p.Bytes))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}
