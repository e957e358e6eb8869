package cli

import (
	"strings"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// runsTo completes a command's first argument with the runs that it can be for.
func (a *app) runsTo(why state.Meaning) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(c.Use, "RUN...") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		s, err := a.openQuietly(c.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer s.close()
		runs, err := s.Store.Runs(c.Context(), state.Filter{Limit: 50})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var words []string
		for _, r := range runs {
			if why == state.ToSee || r.State.Final() == (why == state.ToForget) {
				words = append(words, r.ID+"\t"+r.Name+", "+string(r.State))
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeImages completes a command's images with the names of those in the cache that
// it is about.
func (a *app) completeImages(g imageGroup) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(c.Use, "IMAGE...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := a.openImages()
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

// completeSites completes a flag with the names in the sites file.
func (a *app) completeSites(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, err := a.findSites()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var words []string
	for _, s := range f.Sites {
		words = append(words, s.Name+"\t"+s.Provider)
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// siteFlag has a command's --site completed.
func (a *app) siteFlag(c *cobra.Command) {
	if err := c.RegisterFlagCompletionFunc("site", a.completeSites); err != nil {
		panic(err) // there is no such flag: a mistake here
	}
}

// completeCommands completes the path of a command, for its help.
func completeCommands(help *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, _, err := help.Root().Find(args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			words = append(words, sub.Name()+"\t"+sub.Short)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
