package imagecmd

import (
	"slices"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/image/build"
	"github.com/spf13/cobra"
)

// LsCommand returns the command `ls`.
func (a *Commands) LsCommand(g Group) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List the " + g.what + " in the cache", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := a.OpenImages()
			if err != nil {
				return err
			}
			views, err := g.views(s)
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(views)
			}
			w := a.On(a.Stdout).List()
			w.Row("IMAGE", "ID", "PLATFORM", "SIZE")
			for _, i := range views {
				names := i.names()
				if len(names) == 0 && slices.ContainsFunc(views, func(v View) bool { return slices.Contains(v.Refs, i.Ref) }) {
					names = []string{"-"} // what it was called is another by now
				} else if len(names) == 0 {
					names = []string{i.Ref}
				}
				for _, name := range names { // of which an image may have any number
					w.Row(name, ShortID(i.ID), i.OS+"/"+i.Arch, console.BytesText(i.Size))
				}
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// ShowCommand returns the command `show`.
func (a *Commands) ShowCommand(g Group) *cobra.Command {
	c := &cobra.Command{
		Use: "show IMAGE", Short: "Show an image's properties, as JSON", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeImages(g),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.OpenImages()
			if err != nil {
				return err
			}
			i, err := g.find(s, c.Name(), args[0])
			if err != nil {
				return err
			}
			views, err := imageViews(s, i)
			if err != nil {
				return err
			}
			if build.Is(i.Config.Env) {
				tree, release, err := s.Tree(c.Context(), i.ID)
				if err != nil {
					return err
				}
				defer release()
				if views[0].Packages, err = build.Packages(tree); err != nil {
					return err
				}
			}
			return a.WriteJSON(views[0])
		},
	}
	c.Flags().Bool("json", true, console.JSONHelp+", which it always does")
	return c
}
