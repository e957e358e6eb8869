package workspace

import (
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// RunsTo completes a command's first argument with the runs that it can be for, and all
// its arguments where it is for several runs.
func (a *Workspace) RunsTo(why state.Meaning) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(c.Use, "RUN...") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		s, err := a.OpenQuietly(c.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer s.Close()
		runs, err := s.Store.Runs(c.Context(), state.Filter{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		words := RunWords(runs, why, begun)
		words = slices.DeleteFunc(words, func(w string) bool {
			word, _, _ := strings.Cut(w, "\t")
			return slices.Contains(args, word)
		})
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// maxWords bounds the runs that are offered: a terminal shows no more.
const maxWords = 100

// RunWords returns words for runs, newest first, with their states. A run goes by its name
// where that means it and no other, else by its id.
func RunWords(runs []state.Run, why state.Meaning, begun string) []string {
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

// completeSites completes a flag with the names in the sites file.
func (a *Workspace) completeSites(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, err := a.FindSites()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var words []string
	for _, s := range f.Sites {
		words = append(words, s.Name+"\t"+s.Provider)
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// SiteFlag has a command's --site completed.
func (a *Workspace) SiteFlag(c *cobra.Command) {
	if err := c.RegisterFlagCompletionFunc("site", a.completeSites); err != nil {
		panic(err) // there is no such flag: a mistake here
	}
}

// RunsFlag has a flag of a command completed with runs.
func (a *Workspace) RunsFlag(c *cobra.Command, flag string) {
	of := a.RunsTo(state.ToSee)
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return of(c, nil, word)
	})
	if err != nil {
		panic(err) // there is no such flag: a mistake here
	}
}

// WordsFlag has a flag of a command completed with the words that it takes.
func WordsFlag(c *cobra.Command, flag string, words ...cobra.Completion) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag: a mistake here
	}
}
