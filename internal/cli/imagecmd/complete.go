package imagecmd

import (
	"strings"

	"github.com/spf13/cobra"
)

// completeImages completes a command's images with the names of those in the cache that
// it is about.
func (a *Commands) completeImages(g Group) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(c.Use, "IMAGE...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := a.OpenImages()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		views, err := g.views(s)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var words []string
		for _, i := range views {
			words = append(words, i.names()...)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
