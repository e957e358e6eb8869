package setupcmd

import (
	"errors"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/docs"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/topic"
	"github.com/bee-hpc/bee/internal/cli/usage"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// HelpCommand returns the command `help` in place of cobra's own: it has pages of the
// documentation as well, and errors with a remedy.
func (a *Commands) HelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND | TOPIC]", Short: "Help about any command, and pages of the documentation",
		Long: `Print the help of a command, or a page of the documentation. Manual pages have the same
text, such as beefile(5) and bee-troubleshooting(7). bee help lists commands and topics.`,
		Example:           "  bee help run\n  bee help beefile\n  bee help troubleshooting | less",
		ValidArgsFunction: completeHelp,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 { // such as Beefile
				args = append([]string{strings.ToLower(args[0])}, args[1:]...)
			}
			if len(args) == 1 {
				if t, is := docs.Find(args[0]); is {
					page, err := topic.Read(t)
					if err != nil {
						return err
					}
					return topic.Show(a.On(c.OutOrStdout()), page)
				}
			}
			about, rest, err := root.Find(args)
			switch {
			case len(args) == 1 && (err != nil || len(rest) > 0):
				return unknownTopic(root, args[0])
			case err != nil || len(rest) > 0:
				return usage.WrongArguments(about, rest)
			}
			about.InitDefaultHelpFlag()
			if err := about.Help(); err != nil || about != root {
				return err
			}
			return listTopics(a.On(c.OutOrStdout()))
		},
	}
}

// pagesFor are the pages about words that are no topics and no commands.
var pagesFor = map[string][]string{ // a table
	"docker": {"from-docker", "run"}, "podman": {"from-docker", "run"}, "compose": {"from-docker", "init"}, "container": {"run", "runtimes"}, "containers": {"run", "runtimes"},
	"cluster": {"sites", "slurm"}, "clusters": {"sites", "slurm"}, "host": {"sites"}, "hosts": {"sites"}, "machines": {"sites"}, "ssh-hosts": {"sites"},
	"mpirun": {"mpi"}, "openmpi": {"mpi"}, "mpich": {"mpi"},
	"sbatch": {"from-slurm", "run"}, "srun": {"from-slurm", "run"}, "squeue": {"from-slurm", "ps"}, "scancel": {"from-slurm", "stop"},
}

func unknownTopic(root *cobra.Command, word string) error {
	var names []string
	near := pagesFor[word]
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
		if pagesFor[word] == nil && slices.Contains(c.SuggestFor, word) {
			near = append(near, c.Name())
		}
	}
	for _, t := range docs.Topics() {
		names = append(names, t.Name)
	}
	e := &core.Error{
		Kind: core.Invalid, Op: "find help about", Object: word, Err: errors.New("it is no command and no topic"),
		Remedy: "`bee help` lists commands and topics.",
	}
	if one := spec.Nearest(word, names); len(near) == 0 && one != "" {
		near = []string{one}
	}
	if len(near) > 0 {
		e.Remedy = "Did you mean `bee help " + strings.Join(near, "` or `bee help ") + "`? " + e.Remedy
	}
	return e
}

// listTopics prints the topics, behind the commands.
func listTopics(screen *output.Screen) error {
	table := screen.Prose()
	table.Row("")
	table.Row("Topics (bee help TOPIC):")
	table.Gap()
	for _, t := range docs.Topics() {
		table.Row("  "+t.Name, t.Short)
	}
	return table.Flush()
}

// completeHelp completes the path of a command, or a topic.
func completeHelp(help *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
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
	if len(args) == 0 {
		for _, t := range docs.Topics() {
			words = append(words, t.Name+"\t"+t.Short)
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, start) })
	return words, cobra.ShellCompDirectiveNoFileComp
}
