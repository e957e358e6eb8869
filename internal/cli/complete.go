package cli

import (
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// runsTo completes a command's first argument with the runs that it can be for, and all
// its arguments where it is for several runs.
func (a *app) runsTo(why state.Meaning) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(c.Use, "RUN...") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		s, err := a.openQuietly(c.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer s.close()
		runs, err := s.Store.Runs(c.Context(), state.Filter{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		words := runWords(runs, why, begun)
		words = slices.DeleteFunc(words, func(w string) bool {
			word, _, _ := strings.Cut(w, "\t")
			return slices.Contains(args, word)
		})
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCopy completes an argument of bee cp, which may be a file of this machine, too.
func (a *app) completeCopy(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(begun, ":/") || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words, directive := a.runsTo(state.ToReach)(c, nil, begun)
	if len(words) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for i, w := range words {
		word, about, _ := strings.Cut(w, "\t")
		words[i] = word + ":\t" + about
	}
	return words, directive&^cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// maxWords bounds the runs that are offered: a terminal shows no more.
const maxWords = 100

// runWords returns words for runs, newest first, with their states. A run goes by its name
// where that means it and no other, else by its id.
func runWords(runs []state.Run, why state.Meaning, begun string) []string {
	offered := func(r state.Run) bool { return why == state.ToSee || r.State.Final() == (why == state.ToForget) }
	newest, several := map[string]string{}, map[string]bool{}
	for _, r := range runs {
		switch {
		case why != state.ToForget && !offered(r): // a name means none of these
		case newest[r.Name] == "":
			newest[r.Name] = r.ID
		default:
			several[r.Name] = why != state.ToSee
		}
	}
	words := []string{}
	for _, r := range runs {
		if !offered(r) || len(words) >= maxWords {
			continue
		}
		byName := newest[r.Name] == r.ID && !several[r.Name]
		if byName && strings.HasPrefix(r.Name, begun) {
			words = append(words, r.Name+"\t"+string(r.State)+", "+r.ID)
		} else if strings.HasPrefix(r.ID, begun) {
			words = append(words, r.ID+"\t"+string(r.State)+", "+r.Name)
		}
	}
	return words
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

// runsFlag has a flag of a command completed with runs.
func (a *app) runsFlag(c *cobra.Command, flag string) {
	of := a.runsTo(state.ToSee)
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return of(c, nil, word)
	})
	if err != nil {
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
