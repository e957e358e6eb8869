package imagecmd

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/spf13/cobra"
)

// PushCommand returns the command `push`.
func (a *Commands) PushCommand(g Group) *cobra.Command {
	var asJSON bool
	var o image.PullOptions
	c := &cobra.Command{
		Use: "push IMAGE REFERENCE", Short: "Send a cached image to a registry, and print its digest there", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeImages(g),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.OpenImages()
			if err != nil {
				return err
			}
			i, err := g.find(s, c.Name(), args[0])
			if err != nil {
				return err
			}
			report, done := a.Progress()
			o.Progress = report
			digest, err := s.Push(c.Context(), i.ID, args[1], o)
			done()
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(map[string]string{"id": i.ID, "ref": args[1], "digest": digest})
			}
			_, err = fmt.Fprintln(a.Stdout, digest)
			return err
		},
	}
	insecureFlag(c, &o)
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}
