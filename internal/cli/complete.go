package cli

import (
	"strings"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// completeCopy completes an argument of bee cp, which may be a file of this machine, too.
func (a *app) completeCopy(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(begun, ":/") || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words, directive := a.RunsTo(state.ToReach)(c, nil, begun)
	if len(words) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for i, w := range words {
		word, about, _ := strings.Cut(w, "\t")
		words[i] = word + ":\t" + about
	}
	return words, directive&^cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeImages completes a command's images with the names of those in the cache that
// it is about.
func (a *app) completeImages(g imageGroup) cobra.CompletionFunc {
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
