package cli

import (
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/image"
	"github.com/spf13/cobra"
)

func (a *app) newImagePushCommand(g imageGroup) *cobra.Command {
	var asJSON bool
	var o image.PullOptions
	c := &cobra.Command{
		Use: "push IMAGE REFERENCE", Short: "Send a cached image to a registry, and tell its digest there", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeImages(g),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.openImages()
			if err != nil {
				return err
			}
			i, err := g.find(s, c.Name(), args[0])
			if err != nil {
				return err
			}
			report, done := a.imageProgress()
			o.Progress = report
			digest, err := s.Push(c.Context(), i.ID, args[1], o)
			done()
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(map[string]string{"id": i.ID, "ref": args[1], "digest": digest})
			}
			_, err = fmt.Fprintln(a.stdout, digest)
			return err
		},
	}
	insecureFlag(c, &o)
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return c
}

func (a *app) newImageRmCommand(g imageGroup) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "rm IMAGE...", Short: "Remove images that no run uses", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeImages(g),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.openImages()
			if err != nil {
				return err
			}
			var ids []string // each once, and all before any is removed
			for _, word := range args {
				i, err := g.find(s, c.Name(), word)
				if err != nil {
					return err
				}
				if !slices.Contains(ids, i.ID) {
					ids = append(ids, i.ID)
				}
			}
			t := a.newTally(asJSON)
			for _, id := range ids {
				t.removed(id, s.Remove(id))
			}
			return t.end()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return c
}

func (a *app) newImagePruneCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "prune", Short: "Remove every image that no run uses, and what died in the making", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.openImages()
			if err != nil {
				return err
			}
			freed, err := s.Prune(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				views := []imageView{}
				for _, i := range freed {
					views = append(views, newImageView(i, nil))
				}
				return a.writeJSON(views)
			}
			for _, i := range freed {
				if _, err := fmt.Fprintf(a.stdout, "%s\t%s\n", i.ID, i.Ref); err != nil {
					return err
				}
			}
			if len(freed) == 0 {
				fmt.Fprintln(a.stderr, "bee: no image is without use")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return c
}
